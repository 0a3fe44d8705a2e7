//! Limits of tokens and addresses; tests call the sweep that a server runs every minute.

use super::*;

fn limits() -> HttpLimits {
    HttpLimits {
        subscriptions_per_token: 1,
        in_flight_per_token: 1,
        request_rate: None,
        ..HttpLimits::default()
    }
}

/// Simulates two minutes without requests.
fn sweep_twice(limits: &TokenLimits) {
    limits.remove_unused();
    limits.remove_unused();
}

#[test]
fn sweep_removes_an_unused_token() {
    let limits = TokenLimits::new(&limits());
    limits.insert_valid(1);
    limits.remove_unused();
    assert!(limits.find_valid(1).is_some(), "it was used a minute ago");
    sweep_twice(&limits);
    assert!(limits.find_valid(1).is_none());
}

// S5: 4.7
#[tokio::test]
async fn sweep_keeps_tokens_with_subscriptions_or_running_requests() {
    let limits = TokenLimits::new(&limits());
    let open = limits.insert_valid(1).acquire_subscription().unwrap();
    sweep_twice(&limits);
    assert!(limits.insert_valid(1).acquire_subscription().is_err());
    drop(open);
    assert!(limits.insert_valid(1).acquire_subscription().is_ok());

    let soon = Instant::now() + Duration::from_millis(20);
    let running = limits.acquire_run_permit(&limits.insert_valid(1), soon).await.unwrap();
    sweep_twice(&limits);
    assert!(limits.acquire_run_permit(&limits.insert_valid(1), soon).await.is_err());
    drop(running);
    assert!(limits.acquire_run_permit(&limits.insert_valid(1), soon).await.is_ok());
}

// S5: 4.7
#[test]
fn sweep_keeps_a_rate_that_has_not_recovered() {
    let requests = Some(RateLimit { every: Duration::from_secs(3600), burst: 2 });
    let limits = TokenLimits::new(&HttpLimits { request_rate: requests, ..limits() });
    limits.count_request(&limits.insert_valid(1)).unwrap();
    sweep_twice(&limits);
    limits.count_request(&limits.insert_valid(1)).unwrap();
    assert!(limits.count_request(&limits.insert_valid(1)).is_err());
    assert!(limits.count_request(&limits.insert_valid(2)).is_ok());
}

#[test]
fn default_rate_allows_a_burst_of_two_hundred() {
    let limits = TokenLimits::new(&HttpLimits::default());
    let limit = limits.insert_valid(1);
    let through = (0..10_000).take_while(|_| limits.count_request(&limit).is_ok()).count();
    assert!((200..10_000).contains(&through), "{through}");
}

#[test]
fn addresses_of_one_ipv6_host_are_one_network() {
    let network = |address: &str| address_network(address.parse().unwrap());
    assert_eq!(network("2001:db8::1"), network("2001:db8::2"));
    assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
    assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
}
