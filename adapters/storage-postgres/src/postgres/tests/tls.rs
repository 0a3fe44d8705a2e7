//! TLS, client certificates and several hosts on real servers.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use reqlore_test_postgres::{PostgresCluster, StopMode};

use super::connect_options::parse;
use super::connections::{connect_error, small_runtime};
use crate::postgres::connector::SessionKind;
use crate::postgres::pool::ConnectionPool;

/// The version of TLS that the server sees, or the error for operators.
fn tls_version(url: &str) -> Result<String, String> {
    let pool = ConnectionPool::new(parse(url)).unwrap();
    small_runtime().block_on(async {
        let client =
            pool.connect(SessionKind::Reader).await.map_err(|error| error.operator_text())?;
        let query = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        let row = client.query_one(query, &[]).await.unwrap();
        Ok(row.get::<_, Option<String>>(0).unwrap_or_default())
    })
}

#[test]
fn tls_server_is_verified_as_the_url_says() {
    let cluster = PostgresCluster::start_with(&[("listen_addresses", "127.0.0.1,127.0.0.2")]);
    let certificates = cluster.enable_tls();
    cluster.add_client_rule("host all all 127.0.0.0/8 scram-sha-256");
    cluster.reload();
    let [known, unknown] = [certificates.authority, certificates.other_authority]
        .map(|file| file.display().to_string());
    let url = |host: &str, parameters: &str| {
        let (user, password, port) = (cluster.user(), cluster.password(), cluster.port());
        format!("postgres://{user}:{password}@{host}:{port}/postgres?{parameters}")
    };
    let [full, ca] = ["verify-full", "verify-ca"]
        .map(|mode| format!("sslmode={mode}&sslrootcert={known}&channel_binding=require"));
    for (host, parameters) in [
        ("localhost", full.as_str()),
        ("127.0.0.1", &full),
        ("127.0.0.2", &ca),
        ("127.0.0.2", "sslmode=require"),
    ] {
        assert_eq!(tls_version(&url(host, parameters)).unwrap(), "TLSv1.3", "{host} {parameters}");
    }
    for (host, parameters, expected) in [
        ("127.0.0.2", full.clone(), "certificate not valid for name \"127.0.0.2\""),
        ("localhost", format!("sslmode=verify-full&sslrootcert={unknown}"), "UnknownIssuer"),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={unknown}"), "UnknownIssuer"),
        ("localhost", format!("sslmode=require&sslrootcert={unknown}"), "UnknownIssuer"),
        ("localhost", "sslmode=verify-full".to_owned(), "UnknownIssuer"),
        ("localhost", "sslmode=verify-full&sslrootcert=/missing".to_owned(), "/missing: it can't"),
    ] {
        let message = tls_version(&url(host, &parameters)).unwrap_err();
        assert!(message.contains(expected), "{host} {parameters}: {message}");
        let pool = ConnectionPool::new(parse(&url(host, &parameters))).unwrap();
        let error = small_runtime().block_on(pool.get()).unwrap_err().error.to_string();
        assert!(error.contains("Reqlore's log") && !error.contains(host), "{error}");
    }
    assert_eq!(tls_version(&url("localhost", "")).unwrap(), "", "this machine needs no TLS");
}

#[test]
fn tls_client_certificate_replaces_the_password() {
    let cluster = PostgresCluster::start();
    let certificates = cluster.enable_tls();
    cluster.add_client_rule("hostssl all all 127.0.0.1/32 cert");
    cluster.reload();
    let (certificate, key) = (certificates.client, certificates.client_key);
    let url = |files: &str| {
        format!(
            "postgres://{}@127.0.0.1:{}/postgres?sslmode=verify-full&sslrootcert={}{files}",
            cluster.user(),
            cluster.port(),
            certificates.authority.display()
        )
    };
    let files = format!("&sslcert={}&sslkey={}", certificate.display(), key.display());
    assert_eq!(tls_version(&url(&files)).unwrap(), "TLSv1.3");
    let message = tls_version(&url("")).unwrap_err();
    assert!(message.contains("certificate"), "{message}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let message = tls_version(&url(&files)).unwrap_err();
    assert!(message.contains("client.key: other users can read it"), "{message}");
}

#[test]
fn several_hosts_lead_to_the_one_that_can_be_written() {
    let primary = PostgresCluster::start();
    let standby = primary.start_standby();
    let url = format!(
        "postgres://{}:{}@127.0.0.1:{},127.0.0.1:{}/postgres",
        primary.user(),
        primary.password(),
        standby.port(),
        primary.port()
    );
    let port = |pool: &ConnectionPool| -> String {
        small_runtime().block_on(async {
            let client = pool.get().await.unwrap();
            client.query_one("SHOW port", &[]).await.unwrap().get(0)
        })
    };
    let pool = ConnectionPool::new(parse(&url)).unwrap();
    assert_eq!(port(&pool), primary.port().to_string());
    let any = ConnectionPool::new(parse(&format!("{url}?target_session_attrs=any"))).unwrap();
    assert_eq!(port(&any), standby.port().to_string());

    primary.stop(StopMode::Immediate);
    pool.expire_connections();
    let message = connect_error(parse(&url));
    assert!(message.contains("cannot be reached"), "{message}");
    let only_standby = url.replace(&format!(",127.0.0.1:{}", primary.port()), "");
    assert!(connect_error(parse(&only_standby)).contains("it is a read-only standby"));
    standby.promote();
    assert_eq!(port(&pool), standby.port().to_string());
}
