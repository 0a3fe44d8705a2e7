//! The rule that decides if a record has ended: it is kept, but no longer valid.

/// Statuses of items and entities that end a record, in lower case.
const ENDED_STATUSES: [&str; 5] = ["cancelled", "deprecated", "obsolete", "rejected", "superseded"];

/// True if a record with this status has ended. Ignores case and surrounding blanks.
///
/// Done is not an end: what was done is still valid.
pub fn is_ended(status: &str) -> bool {
    let status = status.trim();
    ENDED_STATUSES.iter().any(|ended| ended.eq_ignore_ascii_case(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_statuses_end_a_record_in_any_case() {
        for status in ["Obsolete", "Cancelled", "superseded", " Rejected ", "DEPRECATED"] {
            assert!(is_ended(status), "{status}");
        }
        for status in ["Done", "Met", "accepted", "closed", "Draft", "proposed", ""] {
            assert!(!is_ended(status), "{status}");
        }
    }
}
