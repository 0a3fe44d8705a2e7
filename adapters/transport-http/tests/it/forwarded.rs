//! The client's address from the headers of proxies.

use reqlore_transport_http::{ForwardedBy, HttpLimits, ProxyNetwork, ProxyTrust};

use crate::test_client::TestRequest;
use crate::test_server::{TestServer, request_without_token, token, valid_request};

fn server_behind(proxies: &[&str], header: ForwardedBy) -> TestServer {
    let proxies = proxies.iter().map(|text| text.parse().unwrap()).collect();
    let limits = HttpLimits { connections_per_address: 1, ..HttpLimits::default() };
    TestServer::configured(limits, |config| {
        config.behind_proxy = Some(ProxyTrust { proxies, header });
    })
}

async fn client_address(server: &TestServer, request: &TestRequest) -> String {
    assert_eq!(server.status(request).await, 200);
    server.tokens.address.lock().unwrap().clone()
}

#[tokio::test]
async fn client_is_last_address_before_trusted_proxies() {
    let server = server_behind(&["127.0.0.0/8", "10.0.0.0/8"], ForwardedBy::XForwardedFor);
    for (value, expected) in [
        ("203.0.113.9", "203.0.113.9"),
        ("1.2.3.4, 203.0.113.9", "203.0.113.9"),
        ("1.2.3.4, 203.0.113.9, 10.1.1.1", "203.0.113.9"),
        ("203.0.113.9:4711", "203.0.113.9"),
        ("2001:db8::7", "2001:db8::7"),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("10.2.2.2", "10.2.2.2"),
        ("evil, 10.2.2.2", "10.2.2.2"),
        ("", "127.0.0.1"),
        ("nonsense", "127.0.0.1"),
    ] {
        let request = valid_request().header("X-Forwarded-For", value);
        assert_eq!(client_address(&server, &request).await, expected, "{value}");
    }
    let twice =
        valid_request().header("X-Forwarded-For", "1.1.1.1").header("X-Forwarded-For", "2.2.2.2");
    assert_eq!(client_address(&server, &twice).await, "2.2.2.2");
    let other = valid_request().header("Forwarded", "for=1.1.1.1");
    assert_eq!(client_address(&server, &other).await, "127.0.0.1", "clients may have written it");
}

#[tokio::test]
async fn forwarded_header_is_read_if_configured() {
    let server = server_behind(&["127.0.0.1"], ForwardedBy::Forwarded);
    for (value, expected) in [
        ("for=203.0.113.9", "203.0.113.9"),
        ("for=1.2.3.4, For=\"203.0.113.9:80\";proto=https;by=10.0.0.1", "203.0.113.9"),
        ("proto=https; for=\"[2001:db8::7]:1\"", "2001:db8::7"),
        ("for=_hidden", "127.0.0.1"),
        ("by=1.2.3.4", "127.0.0.1"),
    ] {
        let request =
            valid_request().header("Forwarded", value).header("X-Forwarded-For", "9.9.9.9");
        assert_eq!(client_address(&server, &request).await, expected, "{value}");
    }
}

#[tokio::test]
async fn untrusted_peer_cannot_set_client_address() {
    let request = valid_request().header("X-Forwarded-For", "203.0.113.9");
    for server in [server_behind(&["10.0.0.0/8"], ForwardedBy::XForwardedFor), TestServer::start()]
    {
        assert_eq!(client_address(&server, &request).await, "127.0.0.1");
    }
}

// S5: 4.7
#[tokio::test]
async fn failed_logins_are_limited_per_client_address() {
    let server = server_behind(&["127.0.0.1"], ForwardedBy::XForwardedFor);
    let guess = |from: &str| {
        request_without_token().token(&token("UnknownToken")).header("X-Forwarded-For", from)
    };
    for n in 0..8 {
        let expected = if n < 5 { 401 } else { 429 };
        // Addresses before the proxy's own entry have no effect; an IPv6 network is one client.
        for from in [format!("9.9.9.{n}, 203.0.113.9"), format!("2001:db8:0:1::{n}")] {
            assert_eq!(server.status(&guess(&from)).await, expected, "{from}");
        }
    }
    assert_eq!(server.status(&guess("203.0.113.10")).await, 401);
}

#[tokio::test]
async fn connections_of_a_proxy_are_not_limited_by_address() {
    let server = server_behind(&["127.0.0.1"], ForwardedBy::XForwardedFor);
    let mut one = server.connect().await;
    let mut other = server.connect().await;
    assert_eq!(one.request(&valid_request()).await.status, 200);
    assert_eq!(other.request(&valid_request()).await.status, 200);
}

#[test]
fn networks_parse_and_invalid_ones_are_rejected() {
    for good in ["10.0.0.7", "10.0.0.0/8", "0.0.0.0/0", "::1", "fd00::/8", "::/0"] {
        assert!(good.parse::<ProxyNetwork>().is_ok(), "{good}");
    }
    for bad in ["", "10.0.0", "10.0.0.0/33", "::1/129", "10.0.0.0/x", "proxy.example", "10.0.0.0/"]
    {
        let message = bad.parse::<ProxyNetwork>().unwrap_err();
        assert!(message.contains(&format!("{bad:?}")), "{message}");
    }
}
