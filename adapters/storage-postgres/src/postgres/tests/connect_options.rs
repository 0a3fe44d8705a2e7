//! Parsing of URLs.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode};

use crate::postgres::connect_options::{PasswordSources, PostgresConfig, TlsMode};

pub(super) fn parse(url: &str) -> PostgresConfig {
    PostgresConfig::parse(url, &PasswordSources::default()).unwrap()
}

fn refuse(url: &str) -> String {
    PostgresConfig::parse(url, &PasswordSources::default()).unwrap_err()
}

#[test]
fn url_parts_are_decoded() {
    let config =
        parse("postgresql://a%20b:p%40%2F%3F%3A@[::1]:5433/d%C3%A9?application_name=x%26y");
    let target = &config.targets[0];
    assert_eq!(target.get_user(), Some("a b"));
    assert_eq!(target.get_password(), Some(&b"p@/?:"[..]));
    assert_eq!(target.get_hosts(), [Host::Tcp("::1".to_owned())]);
    assert_eq!(target.get_dbname(), Some("d\u{e9}"));
    assert_eq!(target.get_application_name(), Some("x&y"));
    assert_eq!(config.to_string(), "postgres://a b@[::1]:5433/d\u{e9}");
    assert!(config.has_url_password());
    assert!(!parse("postgres://a@db/x").has_url_password());
}

#[test]
fn url_with_several_hosts_makes_a_target_of_each() {
    let config = parse("postgres://u@b:5433,a,[2001:db8::1]:7/n?target_session_attrs=any");
    assert_eq!(config.to_string(), "postgres://u@[2001:db8::1]:7,a:5432,b:5433/n");
    assert_eq!(config.targets[0].get_hosts(), [Host::Tcp("b".to_owned())]);
    assert_eq!(config.targets[1].get_ports(), [5432]);
    assert!(!config.needs_writable);
    assert!(parse("postgres://u@a,b/n").needs_writable);
}

#[test]
fn url_with_socket_folder_is_local() {
    for url in
        ["postgres:///n?host=/tmp/s&port=5433", "postgres://%2Ftmp%2Fs:5433/n?sslmode=require"]
    {
        let config = parse(url);
        assert_eq!(config.targets[0].get_hosts(), [Host::Unix(PathBuf::from("/tmp/s"))]);
        assert_eq!(config.to_string(), "postgres:///tmp/s:5433/n");
        assert_eq!(config.tls.mode, TlsMode::Disable);
    }
    assert!(!parse("postgres:///n").targets[0].get_hosts().is_empty());
}

#[test]
fn tls_is_verified_unless_the_server_is_local() {
    for (url, expected) in [
        ("postgres://db.example.org/n", TlsMode::VerifyFull),
        ("postgres://10.0.0.1,localhost/n", TlsMode::VerifyFull),
        ("postgres://localhost,127.0.0.2,[::1]/n", TlsMode::Disable),
        ("postgres://localhost/n?sslmode=verify-full", TlsMode::VerifyFull),
        ("postgres://db/n?sslmode=disable", TlsMode::Disable),
        ("postgres://db/n?sslmode=require", TlsMode::Require),
        ("postgres://db/n?sslmode=require&sslrootcert=a%20b.pem", TlsMode::VerifyCa),
        ("postgres://db/n?sslmode=require&sslrootcert=system", TlsMode::Require),
    ] {
        let config = parse(url);
        assert_eq!(config.tls.mode, expected, "{url}");
        let is_plain = config.targets[0].get_ssl_mode() == SslMode::Disable;
        assert_eq!(is_plain, expected == TlsMode::Disable, "{url}");
    }
}

#[test]
fn parameters_have_the_meaning_of_libpq() {
    let config = parse(
        "postgres://db/n?pool_size=3&tcp_user_timeout=1500&keepalives_count=7&keepalives_idle=9\
         &connect_timeout=2&sslcert=c.pem&sslkey=k.pem&passfile=p",
    );
    let target = &config.targets[0];
    assert_eq!(config.pool_size, 3);
    assert_eq!(target.get_tcp_user_timeout(), Some(&Duration::from_millis(1500)));
    assert_eq!(target.get_keepalives_retries(), Some(7));
    assert_eq!(target.get_keepalives_idle(), Duration::from_secs(9));
    assert_eq!(target.get_keepalives_interval(), Some(Duration::from_secs(3)));
    assert_eq!(target.get_connect_timeout(), Some(&Duration::from_secs(2)));
    assert_eq!(config.tls.client_files, Some(("c.pem".into(), "k.pem".into())));
    assert_eq!(parse("postgres://db/n").targets[0].get_application_name(), Some("reqlore"));
}

#[test]
fn url_errors_name_the_parameter_and_no_secret() {
    for (url, expected) in [
        ("mysql://u:s3cret@h/n", "must begin with postgres://"),
        ("postgres://u:s3cret@x@h/n", "write @ as %40"),
        ("postgres://u:s3cret?x=s3cret@h/n", "write @ as %40"),
        ("postgres://u:s3cret/x@h/n", "write @ as %40"),
        ("postgres://u:s3cret@h/n?ssl=1", "\"ssl\" is not a parameter"),
        ("postgres://u:s3cret@h/n?sslmode", "write it as name=value"),
        ("postgres://u:s3cret@h/n?sslmode=prefer", "sslmode: \"prefer\" is not accepted; use"),
        ("postgres://u:s3cret@h/n?pool_size=0", "a number from 1 to 1000"),
        ("postgres://u:s3cret@h/n?target_session_attrs=standby", "read-write, primary or any"),
        ("postgres://u:s3cret@h/n?host=other", "host: write it between // and /"),
        ("postgres://u:s3cret@h/n?sslcert=c.pem", "one is missing; name both"),
        ("postgres://u@h/n?password=s3cret", "set PGPASSWORD or PGPASSFILE"),
        ("postgres://u:s3cret@h:port/n", "port"),
        ("postgres://u:s3cret@h/n?connect_timeout=x", "connect_timeout"),
    ] {
        let message = refuse(url);
        assert!(message.contains(expected), "{url}: {message}");
        assert!(!message.contains("s3cret"), "{message}");
    }
}

#[test]
fn password_is_in_no_text_of_a_configuration() {
    let sources = PasswordSources { password: Some("s3cret".to_owned()), ..Default::default() };
    for url in ["postgres://u:s3cret@h/n", "postgres://u@h/n"] {
        let config = PostgresConfig::parse(url, &sources).unwrap();
        assert_eq!(config.targets[0].get_password(), Some(&b"s3cret"[..]));
        assert!(!format!("{config} {config:?}").contains("s3cret"), "{config:?}");
    }
}
