//! A private cluster, for tests of durability, failover and TLS.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tokio_postgres::Config;

use crate::programs::{ServerPlace, set_mode};
use crate::sql::run_sql;

/// Superuser of all test clusters.
pub(crate) const USER: &str = "reqlore_test";

/// How the server treats its connections when it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Ends the connections and writes everything.
    Fast,
    /// Ends at once, as after a crash. The next start recovers.
    Immediate,
}

/// A PostgreSQL server with a data directory of its own. It ends when this is dropped, or after
/// the test process. Listens on a free port of 127.0.0.1 and keeps it over restarts.
pub struct PostgresCluster {
    pub(crate) place: ServerPlace,
    port: u16,
    password: String,
    watcher: Option<Child>,
    is_kept: bool,
}

impl PostgresCluster {
    /// A durable cluster with PostgreSQL's default settings.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A durable cluster with settings of `postgresql.conf`, whose values are quoted here.
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        let cluster = Self::create();
        for (name, value) in settings {
            cluster.configure(name, value);
        }
        cluster.finish_start(Path::new("/dev/null"), 0)
    }

    /// A cluster whose data is ready and whose server does not run.
    pub(crate) fn create() -> Self {
        let place = ServerPlace::create();
        let password = random_text();
        let password_file = place.server_folder().join("password");
        place.write_private(&password_file, &password);
        let mut arguments = ["--username", USER, "--auth", "scram-sha-256", "--encoding", "UTF8"]
            .map(str::to_owned)
            .to_vec();
        // The order of a language, so that a statement that relies on the order of the database
        // gives wrong answers.
        arguments.extend(
            ["--locale=C", "--locale-provider=icu", "--icu-locale=en-US"].map(str::to_owned),
        );
        arguments.push("--no-sync".to_owned());
        arguments.push(format!("--pwfile={}", password_file.display()));
        arguments.push(format!("--pgdata={}", place.data().display()));
        place.run("initdb", &arguments).unwrap();
        let cluster = Self::at(place, password);
        cluster.configure("listen_addresses", "127.0.0.1");
        cluster.configure("unix_socket_directories", "");
        cluster.configure("max_connections", "300");
        cluster
    }

    fn at(place: ServerPlace, password: String) -> Self {
        Self { place, port: free_port(), password, watcher: None, is_kept: false }
    }

    pub(crate) fn finish_start(mut self, record: &Path, patience_seconds: u32) -> Self {
        self.register_user(std::process::id());
        self.watcher = Some(self.spawn_watcher(record, patience_seconds));
        for _ in 0..5 {
            match self.start_server() {
                Ok(()) => return self,
                // Another process has taken the port.
                Err(_) if self.log().contains("could not bind") => self.port = free_port(),
                Err(error) => panic!("{error}\n{}", self.log()),
            }
        }
        panic!("no free port in five attempts");
    }

    fn start_server(&self) -> Result<(), String> {
        self.control(&[
            "start",
            "--wait",
            &format!("--log={}", self.place.server_folder().join("log").display()),
            &format!("--options=-p {}", self.port),
        ])
    }

    /// Starts the server after [`Self::stop`] or [`Self::kill_server`].
    pub fn start_again(&self) {
        // After a kill, processes of the old server may still be using its memory.
        let mut result = Ok(());
        for _ in 0..100 {
            result = self.start_server();
            if result.is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{result:?}\n{}", self.log());
    }

    pub fn stop(&self, mode: StopMode) {
        let mode = match mode {
            StopMode::Fast => "--mode=fast",
            StopMode::Immediate => "--mode=immediate",
        };
        self.control(&["stop", "--wait", mode]).unwrap();
    }

    /// Kills the main process of the server with SIGKILL. The other ones end by themselves.
    pub fn kill_server(&self) {
        let file = self.place.data().join("postmaster.pid");
        let text = fs::read_to_string(file).unwrap();
        assert!(kill(text.lines().next().unwrap()));
    }

    /// Kills the server's process of a random connection to the database with SIGKILL, after which
    /// the server ends all connections and recovers. False if there is none.
    pub fn kill_backend(&self, database: &str) -> bool {
        let found = self.query(&format!("{} ORDER BY random() LIMIT 1", backends("pid", database)));
        // It may have ended since.
        found.first().is_some_and(|process| kill(process))
    }

    /// Waits until the server accepts connections again after [`Self::kill_backend`].
    pub fn wait_until_ready(&self) {
        for _ in 0..1000 {
            if self.query_in("postgres", "SELECT 1").is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the server does not accept connections\n{}", self.log());
    }

    /// Ends all connections to the database, as an administrator does. Returns their number.
    pub fn terminate_backends(&self, database: &str) -> usize {
        self.query(&backends("pg_terminate_backend(pid)", database)).len()
    }

    /// A copy of this cluster that follows it, without which no commit is acknowledged. Restarts
    /// this cluster.
    #[must_use]
    pub fn start_standby(&self) -> Self {
        self.stop(StopMode::Fast);
        let place = ServerPlace::create();
        let from = self.place.data();
        let status = Command::new("cp").arg("-Rp").arg(from).arg(place.data()).status().unwrap();
        assert!(status.success());
        let standby = Self::at(place, self.password.clone());
        let source = format!(
            "host=127.0.0.1 port={} user={USER} password={} application_name=standby",
            self.port, self.password
        );
        standby.configure("primary_conninfo", &source);
        standby.place.write_private(&standby.place.data().join("standby.signal"), "");
        self.start_again();
        let standby = standby.finish_start(Path::new("/dev/null"), 0);
        self.configure("synchronous_standby_names", "standby");
        self.reload();
        // A commit returns when the standby has it.
        self.execute("CREATE TABLE standby_follows (); DROP TABLE standby_follows");
        standby
    }

    /// Makes a standby the primary, which acknowledges without a standby of its own.
    pub fn promote(&self) {
        self.control(&["promote", "--wait"]).unwrap();
    }

    /// Adds a setting, which replaces an earlier one of that name at the next start or
    /// [`Self::reload`].
    pub fn configure(&self, name: &str, value: &str) {
        let value = value.replace('\'', "''");
        let file = self.place.data().join("postgresql.conf");
        let mut settings = fs::read_to_string(&file).unwrap();
        settings.extend([name, " = '", &value, "'\n"]);
        fs::write(file, settings).unwrap();
    }

    pub fn reload(&self) {
        self.control(&["reload"]).unwrap();
    }

    /// Adds a line before the rules for clients in `pg_hba.conf`. Needs [`Self::reload`].
    pub fn add_client_rule(&self, rule: &str) {
        let file = self.place.data().join("pg_hba.conf");
        let rules = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{rule}\n{rules}")).unwrap();
    }

    /// Runs statements in the database `postgres`.
    pub fn execute(&self, statements: &str) {
        self.query(statements);
    }

    /// The first column of all rows, from the database `postgres`.
    pub fn query(&self, statements: &str) -> Vec<String> {
        self.query_in("postgres", statements).unwrap()
    }

    /// The first column of all rows. `Err` is the server's message.
    pub fn query_in(&self, database: &str, statements: &str) -> Result<Vec<String>, String> {
        run_sql(self.config().dbname(database), statements)
    }

    /// URL with user and password, without TLS.
    pub fn url(&self, database: &str) -> String {
        format!(
            "postgres://{USER}:{}@127.0.0.1:{}/{database}?sslmode=disable",
            self.password, self.port
        )
    }

    /// URL for a command line: the password is in a file that it names.
    pub fn command_url(&self, database: &str) -> String {
        let file = self.place.folder.join("passfile");
        write_password_file(&file, &self.password);
        command_url(&self.url(database), &file)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn user(&self) -> &'static str {
        USER
    }

    pub fn password(&self) -> &str {
        &self.password
    }

    /// The server's log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.place.server_folder().join("log")).unwrap_or_default()
    }

    /// Leaves the cluster to its watcher.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }

    fn config(&self) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user(USER).password(&self.password);
        config
    }

    fn control(&self, arguments: &[&str]) -> Result<(), String> {
        let data = format!("--pgdata={}", self.place.data().display());
        let mut all = vec![data.as_str(), "--silent"];
        all.extend(arguments);
        self.place.run("pg_ctl", &all)
    }

    fn register_user(&self, process: u32) {
        fs::write(self.place.folder.join("users").join(process.to_string()), "").unwrap();
    }

    fn spawn_watcher(&self, record: &Path, patience_seconds: u32) -> Child {
        Command::new("sh")
            .args(["-c", include_str!("watch.sh"), "watch"])
            .args([self.place.folder.as_path(), record])
            .arg(patience_seconds.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            // A signal for the tests must not reach it.
            .process_group(0)
            .spawn()
            .unwrap()
    }
}

impl Drop for PostgresCluster {
    fn drop(&mut self) {
        if !self.is_kept && self.place.data().is_dir() {
            // Fails if the test has stopped it.
            let _ = self.control(&["stop", "--wait", "--mode=immediate"]);
            let _ = fs::remove_dir_all(&self.place.folder);
        }
    }
}

fn backends(expression: &str, database: &str) -> String {
    format!(
        "SELECT {expression} FROM pg_stat_activity \
         WHERE datname = '{database}' AND pid <> pg_backend_pid()"
    )
}

/// False if the process has ended.
fn kill(process: &str) -> bool {
    Command::new("kill").args(["-KILL", process]).status().unwrap().success()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Writes a password file for any server.
pub(crate) fn write_password_file(file: &Path, password: &str) {
    // A test in another process reads either the whole file or none.
    let unfinished = file.with_extension(std::process::id().to_string());
    fs::write(&unfinished, "").unwrap();
    set_mode(&unfinished, 0o600);
    fs::write(&unfinished, format!("*:*:*:*:{password}\n")).unwrap();
    fs::rename(unfinished, file).unwrap();
}

/// Replaces the password of a URL with the name of its file.
pub(crate) fn command_url(url: &str, password_file: &Path) -> String {
    let (account, rest) = url.split_once('@').expect("a URL names a user");
    let (scheme, account) = account.split_once("//").unwrap();
    let user = account.split(':').next().unwrap();
    let separator = if rest.contains('?') { '&' } else { '?' };
    format!("{scheme}//{user}@{rest}{separator}passfile={}", password_file.display())
}

/// 128 random bits.
pub(crate) fn random_text() -> String {
    use std::io::Read;
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes.map(|byte| format!("{byte:02x}")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_ends_after_its_last_user_was_killed() {
        let mut cluster = PostgresCluster::start();
        let mut user = Command::new("sleep").arg("1000").spawn().unwrap();
        cluster.register_user(user.id());
        let own = cluster.place.folder.join("users").join(std::process::id().to_string());
        fs::remove_file(own).unwrap();
        assert_eq!(cluster.query("SELECT 1"), ["1"]);

        user.kill().unwrap();
        user.wait().unwrap();
        let mut watcher = cluster.watcher.take().unwrap();
        assert!(watcher.wait().unwrap().success());

        assert!(cluster.query_in("postgres", "SELECT 1").is_err());
        assert!(fs::metadata(&cluster.place.folder).is_err());
    }

    #[test]
    fn cluster_killed_and_restarted_keeps_commits() {
        let cluster = PostgresCluster::start();
        assert_eq!(cluster.query("SHOW fsync"), ["on"]);
        cluster.execute("CREATE TABLE kept (id BIGINT); INSERT INTO kept VALUES (1)");
        cluster.kill_server();
        cluster.start_again();
        cluster.execute("INSERT INTO kept VALUES (2)");
        cluster.stop(StopMode::Immediate);
        cluster.start_again();
        assert_eq!(cluster.query("SELECT id FROM kept ORDER BY id"), ["1", "2"]);
    }

    #[test]
    fn standby_promoted_has_all_commits() {
        let cluster = PostgresCluster::start();
        let standby = cluster.start_standby();
        cluster.execute("CREATE TABLE kept (id BIGINT); INSERT INTO kept VALUES (1)");
        assert_eq!(
            cluster.query("SELECT sync_state FROM pg_stat_replication"),
            ["sync"],
            "{}",
            cluster.log()
        );
        let refused = standby.query_in("postgres", "INSERT INTO kept VALUES (2)").unwrap_err();
        assert!(refused.contains("read-only"), "{refused}");
        cluster.kill_server();
        standby.promote();
        standby.execute("INSERT INTO kept VALUES (2)");
        assert_eq!(standby.query("SELECT id FROM kept ORDER BY id"), ["1", "2"]);
    }

    #[test]
    fn cluster_with_tls_accepts_its_authority() {
        let cluster = PostgresCluster::start();
        let certificates = cluster.enable_tls();
        assert_eq!(cluster.query("SHOW ssl"), ["on"]);
        for path in [&certificates.authority, &certificates.client, &certificates.client_key] {
            assert!(fs::read_to_string(path).unwrap().starts_with("-----BEGIN"));
        }
    }

    #[test]
    fn command_url_has_no_password() {
        let url = "postgres://me:secret@127.0.0.1:1/db";
        let file = Path::new("/tmp/passfile");
        assert_eq!(command_url(url, file), "postgres://me@127.0.0.1:1/db?passfile=/tmp/passfile");
        let url = format!("{url}?sslmode=disable");
        assert!(command_url(&url, file).ends_with("/db?sslmode=disable&passfile=/tmp/passfile"));
    }

    #[test]
    fn backend_killed_ends_its_connection() {
        let cluster = PostgresCluster::start();
        assert!(!cluster.kill_backend("postgres"), "no connection is open");
        std::thread::scope(|scope| {
            let sleep = || cluster.query_in("postgres", "SELECT pg_sleep(1000)");
            let killed = scope.spawn(sleep);
            while !cluster.kill_backend("postgres") {}
            killed.join().unwrap().unwrap_err();
            cluster.wait_until_ready();
            let terminated = scope.spawn(sleep);
            while cluster.terminate_backends("postgres") == 0 {}
            terminated.join().unwrap().unwrap_err();
        });
    }
}
