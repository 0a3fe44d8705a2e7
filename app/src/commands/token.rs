//! `reqlore token`: administers the tokens of users.
//!
//! A token is printed once, alone on standard output, so that `TOKEN=$(reqlore token create …)`
//! works; everything else goes to stderr. An invalid id is not repeated: it may be a whole token.

use std::io::Write;

use reqlore_application::identity::tokens::{
    self, IssuedToken, RevokedToken, TokenLifetime, TokenRequest, TokenSummary,
};
use reqlore_domain::identity::{Access, Role, Token, TokenId, User, UserName};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use serde_json::{Value, json};

use super::{print, print_json, table};
use crate::composition;
use crate::config::Config;
use crate::exit::{CommandError, OK};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Create a token and print it, only this once
    Create(Create),
    /// List all tokens, also invalid ones
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Reject a token from now on
    Revoke {
        /// As `reqlore token list` shows it
        id: String,
    },
    /// Replace a token by a new one of the same lifetime, and print it, only this once
    Rotate {
        /// As `reqlore token list` shows it
        id: String,
        /// How long the old token stays valid, at most 24h
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = TokenLifetime::of_overlap)]
        overlap: TokenLifetime,
        /// Print the token and its properties as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The owner
    #[arg(long, value_name = "NAME", value_parser = UserName::parse)]
    user: UserName,
    /// Access at most, also if the user's role allows more: read or write
    #[arg(long, value_name = "SCOPE", default_value = "write", value_parser = scope)]
    scope: Access,
    /// Keys of the projects it may use; the first is the default of calls that name none
    /// [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    projects: Vec<String>,
    /// Lifetime, from 1s to 366d (s, m, h, d)
    #[arg(
        long,
        value_name = "TIME",
        default_value_t = TokenLifetime::USUAL,
        value_parser = TokenLifetime::of_token
    )]
    expires: TokenLifetime,
    /// Print the token and its properties as JSON
    #[arg(long)]
    json: bool,
}

fn scope(text: &str) -> Result<Access, String> {
    let found = Access::ALL.into_iter().find(|access| access.name() == text);
    found.ok_or_else(|| "the scopes are read and write".to_owned())
}

pub(crate) async fn run(config: &Config, command: &Command) -> Result<u8, CommandError> {
    let of = composition::administration(config, false)?;
    match command {
        Command::Create(Create { user, scope, projects, expires, json }) => {
            let projects = projects.iter().map(|key| ProjectKey::new(key.trim())).collect();
            let (user, scope, lifetime) = (user.clone(), *scope, *expires);
            let issued =
                tokens::create(&of, TokenRequest { user, scope, projects, lifetime }).await?;
            print_token(&issued, *json)?;
            eprintln!("{}", about(&issued));
            Ok(OK)
        }
        Command::List { json } => {
            let all = tokens::list(&of).await?;
            if *json { print_json(&tokens_json(&all)) } else { print(&lines(&all)) }
        }
        Command::Revoke { id } => {
            let RevokedToken { token, unchanged } = tokens::revoke(&of, read(id)?).await?;
            let since = token.revoked_at.unwrap_or_default().rfc3339();
            print(&if unchanged {
                format!("{} has been revoked since {since}.\n", token.id)
            } else {
                format!("{} is revoked: it is no longer valid.\n", token.id)
            })
        }
        Command::Rotate { id, overlap, json } => {
            let id = read(id)?;
            let issued = tokens::rotate(&of, id.clone(), *overlap).await?;
            print_token(&issued, *json)?;
            let old = if *overlap == TokenLifetime::default() {
                "is no longer valid".to_owned()
            } else {
                format!("stays valid for at most {overlap}")
            };
            eprintln!("{}\nThe old one, {id}, {old}.", about(&issued));
            Ok(OK)
        }
    }
}

fn read(id: &str) -> Result<TokenId, CommandError> {
    TokenId::parse(id).ok_or_else(|| {
        CommandError::usage(
            "ID: must be the 12 letters and digits after reqlore_pat_ in the token; `reqlore token \
             list` shows all",
        )
    })
}

/// Prints the token alone to standard output.
fn print_token(issued: &IssuedToken, as_json: bool) -> Result<(), CommandError> {
    let IssuedToken { presented, token, .. } = issued;
    let text = if as_json {
        let mut shown = properties(token);
        shown["token"] = json!(presented.reveal());
        format!("{shown:#}\n")
    } else {
        presented.reveal() + "\n"
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        CommandError::refused(format!(
            "the token could not be printed, so it is lost: {error}; revoke it with `reqlore \
             token revoke {}` and create another one",
            token.id
        ))
    })
}

fn about(issued: &IssuedToken) -> String {
    let IssuedToken { token, user: User { name, role, .. }, .. } = issued;
    let projects = match &token.projects[..] {
        [] => "all projects".to_owned(),
        keys => format!("the projects {}", joined(keys)),
    };
    let narrowed = match (role, token.scope) {
        (Role::Commenter, Access::Write) => " (a commenter's token only reads, whatever its scope)",
        _ => "",
    };
    format!(
        "Token {} of {name} ({role}): {}{narrowed}, {projects}, until {}.\nIt is not shown again. \
         Clients send it as `Authorization: Bearer TOKEN`.",
        token.id,
        token.scope.name(),
        token.expires_at.rfc3339()
    )
}

fn joined(projects: &[ProjectKey]) -> String {
    projects.iter().map(ProjectKey::as_str).collect::<Vec<_>>().join(",")
}

fn properties(token: &Token) -> Value {
    json!({
        "id": token.id,
        "user": token.user,
        "scope": token.scope,
        "projects": token.projects,
        "created_at": token.created_at.rfc3339(),
        "expires_at": token.expires_at.rfc3339(),
    })
}

fn tokens_json(all: &[TokenSummary]) -> Value {
    let listed = |TokenSummary { token, state }: &TokenSummary| {
        let mut shown = properties(token);
        shown["last_used_at"] = json!(token.last_used_at.map(Timestamp::rfc3339));
        shown["state"] = json!(state.name());
        shown["successor"] = json!(token.successor);
        shown
    };
    let tokens: Vec<Value> = all.iter().map(listed).collect();
    json!({ "tokens": tokens })
}

fn lines(all: &[TokenSummary]) -> String {
    if all.is_empty() {
        return "There is no token; reqlore token create --user NAME creates one.\n".to_owned();
    }
    let line = |TokenSummary { token, state }: &TokenSummary| {
        let projects = if token.projects.is_empty() { "all" } else { &joined(&token.projects) };
        let used = token.last_used_at.map_or_else(|| "never".to_owned(), Timestamp::rfc3339);
        let successor = token.successor.as_ref().map(|id| format!(", followed by {id}"));
        [
            token.id.to_string(),
            token.user.to_string(),
            token.scope.name().to_owned(),
            projects.to_owned(),
            token.created_at.rfc3339(),
            token.expires_at.rfc3339(),
            used,
            state.name().replace('_', " ") + &successor.unwrap_or_default(),
        ]
    };
    let headings = ["ID", "USER", "SCOPE", "PROJECTS", "CREATED", "EXPIRES", "LAST USED", "STATE"];
    table(headings, all.iter().map(line))
}
