//! Sign-in and sessions of browsers over a real server, and attempts to go around them.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::json;

use crate::client::{project, reqlore};
use crate::http::{STORAGES, Server, TestTeam, token_id};

const FORM: &str = "application/x-www-form-urlencoded";

/// A browser without scripts: a cookie and the address of a server.
struct Browser {
    address: SocketAddr,
    cookie: String,
}

struct Page {
    status: u16,
    head: String,
    body: String,
}

impl Page {
    fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_default()
    }
}

impl Browser {
    fn new(address: SocketAddr) -> Self {
        Self { address, cookie: String::new() }
    }

    fn signed_in(address: SocketAddr, token: &str) -> Self {
        let mut browser = Self::new(address);
        let page = browser.sign_in(token);
        assert_eq!(page.status, 303, "{}{}", page.head, page.body);
        browser.take_cookie(&page);
        browser
    }

    fn sign_in(&self, token: &str) -> Page {
        self.form("/signin", &format!("token={token}&next=/p/default/board"))
    }

    fn take_cookie(&mut self, page: &Page) {
        let cookie = page.header("set-cookie").split(';').next().unwrap();
        cookie.clone_into(&mut self.cookie);
    }

    fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Page {
        let address = self.address;
        let mut request = format!("{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        request.push_str("Accept: text/html,*/*;q=0.8\r\n");
        for (name, value) in headers.iter().chain(&[("Cookie", self.cookie.as_str())]) {
            if !value.is_empty() {
                request.extend([name, ": ", value, "\r\n"]);
            }
        }
        request.extend(["Content-Length: ", &body.len().to_string(), "\r\n\r\n", body]);
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Page { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Page {
        self.send(&format!("GET {path}"), &[], "")
    }

    /// Sends a form as a page of this server does, without its token.
    fn form(&self, path: &str, body: &str) -> Page {
        let origin = format!("http://{}", self.address);
        self.send(&format!("POST {path}"), &[("Origin", &origin), ("Content-Type", FORM)], body)
    }

    /// Sends a form with the token of a page of this session.
    fn post(&self, path: &str, body: &str) -> Page {
        self.form(path, &format!("{body}&csrf={}", self.csrf_token()))
    }

    fn csrf_token(&self) -> String {
        let page = self.get("/p/default/board");
        let (_, rest) = page.body.split_once("name=\"csrf\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    /// The status of a page that needs a session: 200, or 303 to the sign-in.
    fn status(&self) -> u16 {
        self.get("/p/default/board").status
    }

    /// The value of the cookie.
    fn secret(&self) -> &str {
        self.cookie.split_once('=').unwrap().1
    }
}

#[test]
fn session_has_a_safe_cookie_and_ends_with_its_token() {
    for storage in STORAGES {
        let team = TestTeam::new(storage);
        let token = team.administrator();
        let server = team.serve();
        let mut browser = Browser::new(server.address);
        let page = browser.get("/p/default/board");
        assert_eq!((page.status, page.header("location").starts_with("/signin?")), (303, true));
        let page = browser.sign_in(&token);
        assert_eq!((page.status, page.header("location")), (303, "/p/default/board"), "{storage}");
        let cookie = page.header("set-cookie");
        let name = format!("reqlore-{}=reqlore_ses_", server.address.port());
        assert!(cookie.starts_with(&name), "{cookie}");
        assert!(cookie.contains("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
        browser.take_cookie(&page);
        assert_eq!(browser.status(), 200, "{storage}");
        // Another server on the same storage would see the session too: it is stored.
        let signed_out = Browser::signed_in(server.address, &token);
        assert_eq!(signed_out.post("/signout", "").status, 303);
        assert_eq!((signed_out.status(), browser.status()), (303, 200), "{storage}");
        // Revoked by a page, because sled has one process.
        let revoker = Browser::signed_in(server.address, &token);
        let form = format!("action=revoke&id={}", token_id(&token));
        assert_eq!(revoker.post("/p/default/admin/tokens", &form).status, 303, "{storage}");
        assert_eq!((browser.status(), revoker.status()), (303, 303), "{storage}");
        server.end();
        let listed = team.run("token list --json");
        assert_eq!(listed.matches("\"created_at\"").count(), 1, "no sessions: {listed}");
    }
}

#[test]
fn revocation_by_command_ends_the_session_at_once() {
    for storage in ["fs", "sqlite", "postgres"] {
        let team = TestTeam::new(storage);
        let token = team.administrator();
        let servers = [team.serve(), team.serve()];
        let mut browser = Browser::signed_in(servers[0].address, &token);
        assert_eq!(browser.status(), 200);
        // The cookie of the other server has another name.
        let secret = browser.secret().to_owned();
        browser.address = servers[1].address;
        browser.cookie = format!("reqlore-{}={secret}", browser.address.port());
        assert_eq!(browser.status(), 200, "{storage}: every server knows the session");
        team.run(&format!("token revoke {}", token_id(&token)));
        assert_eq!(browser.status(), 303, "{storage}");
        for server in servers {
            server.end();
        }
    }
}

#[test]
fn session_and_token_do_not_replace_each_other() {
    let team = TestTeam::new("fs");
    let token = team.administrator();
    let server = team.serve();
    let browser = Browser::signed_in(server.address, &token);
    // The session as a bearer token, with and without the prefix of tokens.
    let session = browser.secret();
    for bearer in [session.to_owned(), session.replace("_ses_", "_pat_")] {
        let answer = server.client(&bearer).call("list_docsets", json!({}));
        assert_eq!(answer.status, 401, "{answer:?}");
    }
    // The MCP endpoint ignores cookies.
    let mut client = server.client(&token).with("Cookie", &browser.cookie);
    client.headers.retain(|(name, _)| name != "Authorization");
    assert_eq!(client.call("list_docsets", json!({})).status, 401);
    // A token in the cookie, in a URL, or in the header is no session.
    let mut forged = Browser::new(server.address);
    forged.cookie = browser.cookie.replace(session, &token);
    assert_eq!(forged.status(), 303);
    forged.cookie.clear();
    assert_eq!(forged.get(&format!("/p/default/board?token={token}")).status, 400);
    assert_eq!(forged.get(&format!("/signin/{token}")).status, 400);
    assert_eq!(forged.get("/signin/abc").status, 404);
    let bearer = format!("Bearer {token}");
    let page = forged.send("GET /p/default/board", &[("Authorization", &bearer)], "");
    assert_eq!(page.status, 303);
    server.end();
}

#[test]
fn forged_form_is_refused() {
    let team = TestTeam::new("fs");
    let token = team.administrator();
    let server = team.serve();
    let browser = Browser::signed_in(server.address, &token);
    let other = Browser::signed_in(server.address, &token);
    let add = "action=add&name=mallory&role=administrator";
    let path = "/p/default/admin/users";
    for forged in
        [add.to_owned(), format!("{add}&csrf="), format!("{add}&csrf={}", other.csrf_token())]
    {
        assert_eq!(browser.form(path, &forged).status, 403, "{forged}");
    }
    let refused = browser.get("/p/default/activity?action=form").body;
    assert_eq!(refused.matches("POST /p/default/admin/users").count(), 3, "{refused}");
    let valid = format!("{add}&csrf={}", browser.csrf_token());
    for origin in ["https://evil.example", "http://localhost:1", "null"] {
        let headers = [("Origin", origin), ("Content-Type", FORM)];
        assert_eq!(browser.send(&format!("POST {path}"), &headers, &valid).status, 403, "{origin}");
    }
    assert_eq!(browser.get(&format!("{path}?{valid}")).status, 200, "a GET changes nothing");
    assert!(!browser.get(path).body.contains("mallory"));
    assert_eq!(browser.form(path, &valid).status, 303);
    assert!(browser.get(path).body.contains("mallory"));
    server.end();
}

#[test]
fn administration_is_hidden_from_other_callers() {
    let team = TestTeam::new("fs");
    let administrator = team.administrator();
    team.run("user add cora --role commenter");
    let commenter = team.token("cora", "");
    team.run("user add lena --role administrator");
    let limited = team.token("lena", "--projects default");
    let read_only = team.token("lena", "--scope read");
    let server = team.serve();
    let form = "action=add&name=mallory&role=user";
    for token in [commenter, limited, read_only] {
        let browser = Browser::signed_in(server.address, &token);
        let missing = browser.get("/p/default/nothing");
        for page in ["admin/users", "admin/tokens", "admin/audit"] {
            let path = format!("/p/default/{page}");
            let hidden = browser.get(&path);
            assert_eq!((hidden.status, &hidden.body), (404, &missing.body), "{page}");
            assert_eq!(
                browser.post(&path, form).status,
                if page == "admin/audit" { 405 } else { 404 }
            );
        }
        assert_eq!(browser.post("/p/default/activity", "").status, 404, "only the view is allowed");
        assert!(!browser.get("/p/default/board").body.contains("admin/users"));
    }
    // Each attempt has a row with its user.
    let mut rows = 0;
    for user in ["cora", "lena"] {
        let query = format!("/p/default/activity?action=administration&user={user}");
        let activity = Browser::signed_in(server.address, &administrator).get(&query).body;
        assert!(activity.contains("POST /p/default/admin/tokens"), "{activity}");
        rows += activity.matches("T /p/default/admin/users").count();
    }
    assert_eq!(rows, 2 * 3, "a view and a form of three callers");
    let browser = Browser::signed_in(server.address, &administrator);
    let created =
        browser.post("/p/default/admin/tokens", "action=create&user=cora&scope=write&lifetime=1h");
    let secret = created.body.split(['<', '>']).find(|part| part.starts_with("reqlore_pat_"));
    let secret = secret.unwrap().to_owned();
    assert_eq!(server.client(&secret).call("list_docsets", json!({})).status, 200);
    let listed = browser.get("/p/default/admin/tokens").body;
    assert!(listed.contains(token_id(&secret)) && !listed.contains(&secret), "{listed}");
    for (form, problem) in [
        ("action=create&user=cora&scope=write&lifetime=9y", "lifetime"),
        ("action=create&user=cora&scope=write&projects=none&lifetime=1h", "not configured"),
        ("action=create&user=zoe&scope=write&lifetime=1h", "does not exist"),
    ] {
        let page = browser.post("/p/default/admin/tokens", form);
        assert!((400..500).contains(&page.status) && page.body.contains(problem), "{form}");
    }
    let activity = browser.get("/p/default/activity?user=cora&action=token%2Fcreate").body;
    assert!(activity.contains("No rows match"), "{activity}");
    let activity = browser.get("/p/default/activity?action=token%2Fcreate&item=token").body;
    assert!(activity.contains("<td>web</td>") && activity.contains("<td>cli</td>"), "{activity}");
    let verified = browser.post("/p/default/activity", "").body;
    assert!(verified.contains("The audit log is intact"), "{verified}");
    server.end();
}

#[test]
fn server_without_pages_answers_not_found() {
    let team = TestTeam::new("fs");
    let token = team.administrator();
    let mut command = team.command();
    command.arg("--no-web");
    let server = Server::start(command);
    let browser = Browser::new(server.address);
    assert_eq!((browser.get("/").status, browser.sign_in(&token).status), (404, 404));
    server.end();
}

/// The texts of the cells of the rows in a table.
fn table_rows(page: &str) -> Vec<String> {
    let (_, body) = page.split_once("<tbody>").unwrap_or_default();
    let body = body.split("</tbody>").next().unwrap_or_default();
    body.split("<tr>").skip(1).map(str::to_owned).collect()
}

#[test]
fn users_see_their_own_tokens_and_activity_only() {
    let team = TestTeam::new("fs");
    let administrator = team.administrator();
    team.run("user add ben --role user");
    let token = team.token("ben", "");
    let limited = team.token("ben", "--projects default --scope read");
    let server = team.serve();
    let admin = Browser::signed_in(server.address, &administrator);
    assert!(admin.get("/p/default/tokens").body.contains("<h1>Tokens</h1>"));
    let browser = Browser::signed_in(server.address, &token);
    let page = browser.get("/p/default/tokens").body;
    assert!(page.contains("<h1>My tokens</h1>"), "{page}");
    assert_eq!(table_rows(&page).len(), 2, "{page}");
    assert!(!page.contains(token_id(&administrator)) && !page.contains("metrics"), "{page}");
    // A token of another user cannot be created, and theirs cannot be revoked.
    let path = "/p/default/tokens";
    let create = "action=create&scope=write&lifetime=1d&projects=";
    assert_eq!(browser.post(path, &format!("{create}&user=ann")).status, 403);
    let revoke = |token: &str| format!("action=revoke&id={}", token_id(token));
    assert_eq!(browser.post(path, &revoke(&administrator)).status, 404);
    let created = browser.post(path, &format!("{create}&user=BEN"));
    assert_eq!(created.status, 200, "{}", created.body);
    let (_, secret) = created.body.split_once("<pre id=\"new-token\" tabindex=\"0\">").unwrap();
    let created = secret.split('<').next().unwrap().to_owned();
    assert_eq!(Browser::signed_in(server.address, &created).status(), 200);
    assert_eq!(browser.post(path, &revoke(&created)).status, 303);
    assert_eq!(Browser::new(server.address).sign_in(&created).status, 401);
    // A limited session creates a token with its own limits.
    let reader = Browser::signed_in(server.address, &limited);
    let page = reader.post(path, &format!("{create}&user=ben"));
    assert!(page.body.contains("<td>read</td>\n<td><span class=\"tag\">default</span>"));
    assert_eq!(reader.post(path, &format!("{create}other&user=ben")).status, 400);
    for (viewer, actions) in [(&browser, "token/create"), (&browser, "token/revoke")] {
        let rows = table_rows(&viewer.get("/p/default/activity").body);
        assert!(rows.iter().any(|row| row.contains(actions)), "{rows:?}");
        assert!(rows.iter().all(|row| row.contains("<td>ben</td>")), "{rows:?}");
    }
    let foreign = browser.get("/p/default/activity?show=all&user=ann").body;
    assert!(!foreign.contains("<td>ann</td>"), "{foreign}");
    server.end();
}

#[test]
fn new_field_is_in_schema_form_list_command_and_csv() {
    let team = TestTeam::new("sqlite");
    let token = team.administrator();
    let server = team.serve();
    let mut client = server.client(&token);
    let schema = "[fields.severity]\nkinds = [\"epic\", \"decision\"]\ntype = \"choice\"\n\
                  values = [\"Low\", \"High\"]\ncolumn = true\n";
    client.data("set_record_schema", json!({ "text": schema }));
    let browser = Browser::signed_in(server.address, &token);
    let tools = client.request("tools/list", json!({})).json()["result"]["tools"].take();
    let fields = json!({ "severity": "high" });
    for (kind, tool, arguments) in [
        ("epic", "create_epic", json!({ "title": "A", "priority": 1, "fields": fields })),
        (
            "decision",
            "ixchel_create",
            json!({ "kind": "decision", "title": "A", "fields": fields }),
        ),
    ] {
        let tool_schema = tools.as_array().unwrap().iter().find(|one| one["name"] == tool).unwrap();
        let described = &tool_schema["inputSchema"]["properties"]["fields"]["description"];
        assert_eq!(described, "severity: Low, High", "{tool}");
        let form = browser.get(&format!("/p/default/new?kind={kind}")).body;
        assert!(form.contains("name=\"fields.severity\""), "{form}");
        client.data(tool, arguments);
        let listed = client.data("list_items", json!({ "kind": kind, "fields": fields }));
        assert_eq!(listed["items"][0]["fields"]["severity"], "High", "{listed}");
        let list = team.run(&format!("list {kind} --field severity=HIGH"));
        assert!(list.contains("High"), "{list}");
        let csv = team.run(&format!("list {kind} --csv"));
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[0].ends_with(",severity") && lines[1].ends_with(",High"), "{csv}");
    }
    server.end();
}

#[test]
fn view_of_a_page_has_one_row_and_its_refresh_none() {
    let team = TestTeam::new("fs");
    let token = team.administrator();
    let server = team.serve();
    let browser = Browser::signed_in(server.address, &token);
    let arguments = json!({ "title": "Checkout", "priority": 1 });
    server.client(&token).call("create_epic", arguments);
    let rows = |query: &str| table_rows(&browser.get(&format!("/p/default/activity{query}")).body);
    let before = rows("?show=all").len();
    let board = "/p/default/board?kind=epic";
    let page = browser.get(board).body;
    let (_, rest) = page.split_once("data-refresh=\"").unwrap();
    let proof = rest.split('"').next().unwrap();
    let reads = rows("?show=reads&action=list_items");
    assert_eq!(reads.len(), 1, "{reads:?}");
    let refreshed = browser.send(&format!("GET {board}"), &[("reqlore-refresh", proof)], "");
    assert_eq!((refreshed.status, refreshed.body == page), (200, true));
    assert_eq!(rows("?action=list_items").len(), 1);
    // The proof is for one address of one session.
    for (other, address) in [(&browser, "/p/default/board"), (&browser, "/p/default/table")] {
        other.send(&format!("GET {address}"), &[("reqlore-refresh", proof)], "");
    }
    let stranger = Browser::signed_in(server.address, &token);
    stranger.send(&format!("GET {board}"), &[("reqlore-refresh", proof)], "");
    assert_eq!(rows("?action=list_items").len(), 4);
    assert!(rows("?show=all").len() > before);
    let changes = rows("");
    assert_eq!(changes.len(), 3, "{changes:?}");
    let link = "<a href=\"/p/default/item/EP-001\">EP-001 (new)</a>";
    assert!(changes[0].contains(link), "{changes:?}");
    assert!(changes[1].contains("token/create") && changes[2].contains("user/add"), "{changes:?}");
    server.end();
}

/// `reqlore board --no-open` with its link.
struct Board {
    child: Child,
    address: SocketAddr,
    path: String,
}

impl Board {
    fn start(root: &Path, arguments: &[&str]) -> Self {
        let mut command = reqlore();
        command.arg("--root").arg(root).args(["board", "--no-open"]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut link = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut link).unwrap();
        let rest = link.trim().strip_prefix("http://").unwrap();
        let (address, path) = rest.split_once('/').unwrap();
        Self { child, address: address.parse().unwrap(), path: format!("/{path}") }
    }

    fn open(&self) -> Browser {
        let mut browser = Browser::new(self.address);
        let page = browser.get(&self.path);
        browser.take_cookie(&page);
        browser
    }

    fn end(mut self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn board_link_begins_one_session_and_opens_the_kind() {
    let folder = project();
    let board = Board::start(folder.path(), &["epics"]);
    let mut browser = Browser::new(board.address);
    assert!(browser.address.ip().is_loopback());
    assert_eq!(browser.status(), 303);
    assert_eq!(browser.get("/signin/wrong").header("location"), "/signin");
    let page = browser.get(&board.path);
    assert_eq!((page.status, page.header("location")), (303, "/p/default/board?kind=epic"));
    assert!(page.header("set-cookie").contains("; Max-Age=43200"), "{}", page.head);
    browser.take_cookie(&page);
    assert_eq!(browser.status(), 200);
    let thief = Browser::new(browser.address);
    let page = thief.get(&board.path);
    assert_eq!((page.header("location"), page.header("set-cookie")), ("/signin", ""));
    assert_eq!(browser.get("/p/none/board").status, 404);
    assert_eq!(browser.get("/p/default/admin/users").status, 404);
    let name = folder.path().file_name().unwrap().to_string_lossy().into_owned();
    let page = browser.get("/p/default/board").body;
    assert!(page.contains(&format!("<span class=\"project\">{name}</span>")), "{page}");
    board.end();
}

#[test]
fn board_session_and_port_survive_a_restart() {
    let folder = project();
    let sessions = folder.path().join(".reqlore/local/board.sessions");
    let board = Board::start(folder.path(), &[]);
    let browser = board.open();
    let token = browser.csrf_token();
    let text = fs::read_to_string(&sessions).unwrap();
    let secret = browser.secret().split('_').nth(3).unwrap();
    assert!(!text.contains(secret), "{text}");
    assert_eq!(fs::metadata(&sessions).unwrap().permissions().mode() & 0o777, 0o600);
    board.end();
    let board = Board::start(folder.path(), &[]);
    assert_eq!((board.address, browser.status()), (browser.address, 200));
    // The link that the restart opens keeps the session of the pages that are open.
    let page = browser.get(&board.path);
    assert_eq!((page.header("location"), page.header("set-cookie")), ("/p/default/board", ""));
    assert_eq!(browser.csrf_token(), token);
    assert_eq!(Browser::new(board.address).get(&board.path).header("location"), "/signin");
    assert_eq!(browser.post("/signout", "").status, 303);
    assert_eq!(browser.status(), 303);
    board.end();
    let board = Board::start(folder.path(), &[]);
    assert_eq!(browser.status(), 303, "a session that was ended stays ended");
    let browser = board.open();
    board.end();
    // An expired session, and one that came with a copy of the project.
    let text = fs::read_to_string(&sessions).unwrap();
    let end = text.rsplit(',').next().unwrap().trim_end_matches("]]");
    let mut file = OpenOptions::new().write(true).open(&sessions).unwrap();
    file.write_all(text.replace(end, &"1".repeat(end.len())).as_bytes()).unwrap();
    let board = Board::start(folder.path(), &[]);
    assert_eq!(browser.status(), 303);
    let browser = board.open();
    board.end();
    let copy = sessions.with_extension("copy");
    fs::copy(&sessions, &copy).unwrap();
    fs::rename(&copy, &sessions).unwrap();
    let board = Board::start(folder.path(), &[]);
    assert_eq!(browser.status(), 303);
    assert_eq!(board.open().status(), 200);
    board.end();
}

#[test]
fn board_has_the_port_of_its_project() {
    let (folder, other) = (project(), project());
    let board = Board::start(folder.path(), &[]);
    let second = Board::start(folder.path(), &[]);
    let third = Board::start(other.path(), &[]);
    let ports = [&board, &second, &third].map(|board| board.address.port());
    assert!(ports[1] != ports[0] && ports[2] != ports[0], "{ports:?}");
    assert!(ports.iter().all(|port| (20_000..30_000).contains(port)), "{ports:?}");
    let browser = board.open();
    assert_eq!((second.open().status(), browser.status()), (200, 200));
    second.end();
    third.end();
    board.end();
    let named = format!("127.0.0.1:{}", ports[1]);
    let board = Board::start(folder.path(), &["--listen", &named]);
    assert_eq!(board.address.to_string(), named);
    for (address, reason) in
        [(named.as_str(), "in use"), ("0.0.0.0:0", "must be an address of this machine")]
    {
        let mut command = reqlore();
        command.arg("--root").arg(folder.path()).args(["board", "--no-open", "--listen", address]);
        let output = command.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(reason), "{errors}");
    }
    board.end();
}
