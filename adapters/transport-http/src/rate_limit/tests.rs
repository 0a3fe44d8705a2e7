//! What outlasts a sweep. Those of a running server are a minute apart, so they are called here.

use super::*;

fn limits() -> Limits {
    Limits { listens_per_token: 1, in_flight_per_token: 1, requests: None, ..Limits::default() }
}

/// Two quiet minutes.
fn quiet(limits: &TokenLimits) {
    limits.sweep();
    limits.sweep();
}

#[test]
fn an_unused_token_is_removed() {
    let limits = TokenLimits::new(&limits());
    limits.admit(1);
    limits.sweep();
    assert!(limits.known(1).is_some(), "it was used a minute ago");
    quiet(&limits);
    assert!(limits.known(1).is_none());
}

// S5: 4.7
#[tokio::test]
async fn subscriptions_and_running_requests_are_counted_through_every_sweep() {
    let limits = TokenLimits::new(&limits());
    let open = limits.admit(1).subscribe().unwrap();
    quiet(&limits);
    assert!(limits.admit(1).subscribe().is_err());
    drop(open);
    assert!(limits.admit(1).subscribe().is_ok());

    let soon = Instant::now() + Duration::from_millis(20);
    let running = limits.run(&limits.admit(1), soon).await.unwrap();
    quiet(&limits);
    assert!(limits.run(&limits.admit(1), soon).await.is_err());
    drop(running);
    assert!(limits.run(&limits.admit(1), soon).await.is_ok());
}

// S5: 4.7
#[test]
fn a_rate_that_has_not_recovered_outlasts_every_sweep() {
    let requests = Some(Rate { every: Duration::from_secs(3600), burst: 2 });
    let limits = TokenLimits::new(&Limits { requests, ..limits() });
    limits.count(&limits.admit(1)).unwrap();
    quiet(&limits);
    limits.count(&limits.admit(1)).unwrap();
    assert!(limits.count(&limits.admit(1)).is_err());
    assert!(limits.count(&limits.admit(2)).is_ok());
}

#[test]
fn the_default_rate_lets_two_hundred_through_at_once_and_not_many_more() {
    let limits = TokenLimits::new(&Limits::default());
    let limit = limits.admit(1);
    let through = (0..10_000).take_while(|_| limits.count(&limit).is_ok()).count();
    assert!((200..10_000).contains(&through), "{through}");
}

#[test]
fn the_addresses_of_one_ipv6_host_are_one_network() {
    let network = |address: &str| network(address.parse().unwrap());
    assert_eq!(network("2001:db8::1"), network("2001:db8::2"));
    assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
    assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
}
