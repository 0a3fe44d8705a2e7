//! What outlasts a sweep. Those of a running server are a minute apart, so they are called here.

use std::time::Duration;

use super::*;

fn limits() -> Limits {
    Limits { listens_per_token: 1, in_flight_per_token: 1, requests: None, ..Limits::default() }
}

/// Two quiet minutes.
fn quiet(gates: &Gates) {
    gates.sweep();
    gates.sweep();
}

#[test]
fn a_token_that_nobody_uses_is_forgotten() {
    let gates = Gates::new(&limits());
    gates.admit(1);
    gates.sweep();
    assert!(gates.known(1).is_some(), "it was used a minute ago");
    quiet(&gates);
    assert!(gates.known(1).is_none());
}

// S5: 4.7
#[test]
fn a_subscription_that_stands_is_counted_through_every_sweep() {
    let gates = Gates::new(&limits());
    let standing = gates.admit(1).listen().unwrap();
    quiet(&gates);
    assert!(gates.admit(1).listen().is_err());
    drop(standing);
    assert!(gates.admit(1).listen().is_ok());
}

#[tokio::test]
async fn a_request_that_runs_is_counted_through_every_sweep() {
    let gates = Gates::new(&limits());
    let soon = Instant::now() + Duration::from_millis(20);
    let running = gates.enter(&gates.admit(1), soon).await.unwrap();
    quiet(&gates);
    assert!(gates.enter(&gates.admit(1), soon).await.is_err());
    drop(running);
    assert!(gates.enter(&gates.admit(1), soon).await.is_ok());
}

// S5: 4.7
#[test]
fn a_burst_that_has_not_recovered_outlasts_every_sweep() {
    let hour = Duration::from_secs(3600);
    let requests = Some(Rate { every: hour, burst: 2 });
    let gates = Gates::new(&Limits { requests, ..limits() });
    gates.admit(1).count().unwrap();
    gates.admit(2);
    quiet(&gates);
    assert!(gates.known(2).is_none(), "nothing was counted for it");
    gates.admit(1).count().unwrap();
    assert!(gates.admit(1).count().is_err());
}

#[test]
fn the_default_rate_lets_two_hundred_through_at_once_and_not_many_more() {
    let gate = Gate::new(&Limits::default());
    let through = (0..10_000).take_while(|_| gate.count().is_ok()).count();
    assert!((200..10_000).contains(&through), "{through}");
}
