//! Users, tokens and the audit on their way.

use reqlore_domain::identity::{Access, PresentedToken, Role, Token, User, UserName};

use super::*;

fn user(name: &str) -> User {
    let name = UserName::parse(name).unwrap();
    User { name, role: Role::User, created_at: Timestamp(1), disabled_at: None }
}

fn token(id: &str) -> Token {
    let presented = PresentedToken::new(id, &"s".repeat(32)).unwrap();
    Token {
        id: presented.id.clone(),
        user: UserName::parse("ada").unwrap(),
        digest: presented.digest(),
        scope: Access::Write,
        projects: Vec::new(),
        created_at: Timestamp(1),
        expires_at: Timestamp(9),
        revoked_at: None,
        successor: None,
        last_used_at: Some(Timestamp(2)),
    }
}

/// So many rows, sealed one behind the other; the user names tell chains apart.
fn rows(count: usize, user: &str) -> Vec<AuditRow> {
    let mut head = ChainHead::default();
    let row = |_| {
        let entry =
            AuditEvent { user: user.to_owned(), ..AuditEvent::unconfirmed(1, Timestamp(1)) };
        let row = AuditRow::after(head, entry);
        head = row.head();
        row
    };
    (0..count).map(row).collect()
}

async fn with(users: Vec<User>, tokens: Vec<Token>, rows: Vec<AuditRow>) -> MemoryStore {
    let store = MemoryStore::default();
    let mut sink = store.fill().await.unwrap();
    sink.identities(Identities { users, tokens }).await.unwrap();
    sink.audit(rows).await.unwrap();
    sink.finish().await.unwrap();
    store
}

// Rulings 1: `copy` moves users, tokens and the audit's chain
#[tokio::test]
async fn a_team_moves_with_its_documents() {
    let (users, tokens) = (vec![user("ada"), user("Bob")], vec![token("aaaaaaaaaaaa")]);
    let from = with(users, tokens, rows(3, "ada")).await;
    let to = MemoryStore::default();
    let done = copied(&from, &to, SILENT).await.unwrap();
    assert_eq!(done, Copied { users: 2, tokens: 1, rows: 3, ..Copied::default() });
    assert_eq!(verify(&from, &to, SILENT).await.unwrap(), Verified::default());
}

#[tokio::test]
async fn every_difference_between_teams_is_named() {
    let disabled = User { disabled_at: Some(Timestamp(3)), ..user("bob") };
    let revoked = Token { revoked_at: Some(Timestamp(3)), ..token("bbbbbbbbbbbb") };
    let here = [user("ada"), user("bob"), user("Cay")].to_vec();
    let there = [user("bert"), disabled, user("Cay")].to_vec();
    let ours = vec![token("aaaaaaaaaaaa"), token("bbbbbbbbbbbb")];
    let mut chain = rows(3, "ada");
    chain.truncate(2);
    chain[1] = rows(2, "eve").remove(1);
    let here = with(here, ours, rows(3, "ada")).await;
    let there = with(there, vec![revoked], chain).await;
    let told = async |a: &MemoryStore, b: &MemoryStore| {
        let verified = verify(a, b, SILENT).await.unwrap();
        assert_eq!(verified.different, verified.differences.len() as u64);
        verified.differences.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expected = [
        "user ada: missing there",
        "user bert: extra there",
        "user bob: other",
        "token aaaaaaaaaaaa: missing there",
        "token bbbbbbbbbbbb: other",
        "row 2 of the audit: other",
        "row 3 of the audit: missing there",
    ];
    assert_eq!(told(&here, &there).await, expected);
    assert!(told(&there, &here).await.contains(&"row 3 of the audit: extra there".to_owned()));
}
