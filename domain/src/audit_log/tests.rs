//! Valid and broken chains.

use super::*;

fn entry(action: &str) -> AuditEvent {
    let at = Timestamp::new(1_700_000_000, 0);
    AuditEvent { user: "ada".to_owned(), ..AuditEvent::refused(action, OK, String::new(), at) }
}

fn chain(actions: &[&str]) -> Vec<AuditRow> {
    let mut head = ChainHead::default();
    let row = |action: &&str| {
        let row = AuditRow::after(head, entry(action));
        head = row.head();
        row
    };
    actions.iter().map(row).collect()
}

fn verify(rows: &[AuditRow]) -> Result<(u64, ChainHead), ChainError> {
    let mut verifier = ChainVerifier::default();
    verifier.next(rows)?;
    verifier.finish()
}

#[test]
fn a_whole_chain_is_told_with_its_newest_row() {
    let rows = chain(&["a", "b", "c"]);
    assert_eq!(verify(&rows), Ok((3, rows[2].head())));
    assert_eq!(verify(&[]), Ok((0, ChainHead::default())));
    assert_eq!(rows[1].entry().unwrap().action, "b");
}

#[test]
fn every_change_shows() {
    for place in 0..3 {
        let mut rows = chain(&["a", "b", "c"]);
        rows[place].text = rows[place].text.replace("ada", "eve").into();
        let number = place as u64 + 1;
        assert_eq!(verify(&rows), Err(ChainError::Changed { number }));
        // A new seal breaks the next row.
        if place < 2 {
            let before = if place == 0 { RowHash::FIRST } else { rows[place - 1].hash };
            rows[place].hash = seal(before, number, &rows[place].text);
            assert_eq!(verify(&rows), Err(ChainError::Changed { number: number + 1 }));
        }
    }
    let rows = chain(&["a", "b", "c"]);
    for (left, number) in [([0, 2].as_slice(), 2), (&[0, 2, 1], 2), (&[1, 2], 1)] {
        let left: Vec<AuditRow> = left.iter().map(|place: &usize| rows[*place].clone()).collect();
        assert_eq!(verify(&left), Err(ChainError::Missing { number }));
    }
}

#[test]
fn a_beginning_that_a_row_names_as_too_old_is_not_missed() {
    let mut rows = chain(&["a", "b", "c"]);
    let pruned = AuditEvent { reason: "2".to_owned(), ..entry(PRUNED) };
    rows.push(AuditRow::after(rows[2].head(), pruned));
    assert_eq!(verify(&rows[2..]).unwrap().0, 2);
    assert_eq!(verify(&rows[3..]), Err(ChainError::Missing { number: 3 }));
}

// S5: 5.3
#[test]
fn what_callers_wrote_is_kept_without_secrets_and_bounded() {
    let secret = "0123456789abcdefghijklmnopqrstuv";
    let token = format!("reqlore_pat_AbCdEf012345_{secret}_000000");
    let mut entry = entry("get_item");
    entry.reason = format!("with {token}, and Bearer {secret}.");
    entry.correlation_id.clone_from(&token);
    entry.targets = vec![AuditTarget::read(token), AuditTarget::read("\u{e4}".repeat(400))];
    let row = AuditRow::after(ChainHead::default(), entry);
    assert!(!row.text.contains(&secret[..8]), "{}", row.text);
    assert!(row.text.contains("reqlore_pat_AbCdEf012345_****, and Bearer ****"), "{}", row.text);
    assert!(row.text.len() < 1_300);
}
