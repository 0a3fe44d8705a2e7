//! Verification of valid and broken chains.

use super::*;

fn event(action: &str) -> AuditEvent {
    let at = Timestamp::new(1_700_000_000, 0);
    AuditEvent {
        user: "ada".to_owned(),
        ..AuditEvent::rejected(action, RESULT_OK, String::new(), at)
    }
}

fn build_chain(actions: &[&str]) -> Vec<AuditRow> {
    let mut head = ChainHead::default();
    let mut rows = Vec::new();
    for action in actions {
        let row = AuditRow::seal_after(head, event(action));
        head = row.head();
        rows.push(row);
    }
    rows
}

fn verify(rows: &[AuditRow]) -> Result<(u64, ChainHead), ChainError> {
    let mut verifier = ChainVerifier::default();
    verifier.verify_rows(rows)?;
    verifier.finish()
}

#[test]
fn valid_chain_returns_its_length_and_newest_row() {
    let rows = build_chain(&["a", "b", "c"]);
    assert_eq!(verify(&rows), Ok((3, rows[2].head())));
    assert_eq!(verify(&[]), Ok((0, ChainHead::default())));
    assert_eq!(rows[1].parse_event().unwrap().action, "b");
}

#[test]
fn changed_or_removed_row_breaks_the_chain() {
    for at in 0..3 {
        let mut rows = build_chain(&["a", "b", "c"]);
        rows[at].text = rows[at].text.replace("ada", "eve").into();
        let number = at as u64 + 1;
        assert_eq!(verify(&rows), Err(ChainError::Changed { number }));
        // A new seal breaks the next row.
        if at < 2 {
            let previous = if at == 0 { RowHash::FIRST } else { rows[at - 1].hash };
            rows[at].hash = seal_row(previous, number, &rows[at].text);
            assert_eq!(verify(&rows), Err(ChainError::Changed { number: number + 1 }));
        }
    }
    let rows = build_chain(&["a", "b", "c"]);
    for (remaining, number) in [([0, 2].as_slice(), 2), (&[0, 2, 1], 2), (&[1, 2], 1)] {
        let remaining: Vec<AuditRow> =
            remaining.iter().map(|at: &usize| rows[*at].clone()).collect();
        assert_eq!(verify(&remaining), Err(ChainError::Missing { number }));
    }
}

#[test]
fn pruned_rows_are_not_missing_if_a_row_records_it() {
    let mut rows = build_chain(&["a", "b", "c"]);
    let pruned = AuditEvent { reason: "2".to_owned(), ..event(PRUNED_ACTION) };
    rows.push(AuditRow::seal_after(rows[2].head(), pruned));
    assert_eq!(verify(&rows[2..]).unwrap().0, 2);
    assert_eq!(verify(&rows[3..]), Err(ChainError::Missing { number: 3 }));
}

// S5: 5.3
#[test]
fn audit_row_is_redacted_and_truncated() {
    let secret = "0123456789abcdefghijklmnopqrstuv";
    let token = format!("reqlore_pat_AbCdEf012345_{secret}_000000");
    let mut event = event("get_item");
    event.reason = format!("with {token}, and Bearer {secret}.");
    event.correlation_id.clone_from(&token);
    event.targets =
        vec![AuditTarget::unchanged(token), AuditTarget::unchanged("\u{e4}".repeat(400))];
    let row = AuditRow::seal_after(ChainHead::default(), event);
    assert!(!row.text.contains(&secret[..8]), "{}", row.text);
    assert!(row.text.contains("reqlore_pat_AbCdEf012345_****, and Bearer ****"), "{}", row.text);
    assert!(row.text.len() < 1_300);
}

#[test]
fn audit_channel_is_omitted_for_clients_and_kept_for_others() {
    let row = |channel| {
        AuditRow::seal_after(ChainHead::default(), AuditEvent { channel, ..event("read") })
    };
    let client = row(CallChannel::Mcp);
    // The text of a row never changes, or the hashes of earlier versions would be invalid.
    assert!(!client.text.contains("channel"), "{}", client.text);
    for channel in CallChannel::ALL {
        assert_eq!(row(channel).parse_event().unwrap().channel, channel);
    }
}
