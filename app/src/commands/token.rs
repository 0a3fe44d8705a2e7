//! `reqlore token`: administers the tokens of users.
//!
//! A token is printed once, alone on standard output, so that `TOKEN=$(reqlore token create …)`
//! works; everything else goes to stderr. An invalid id is not repeated: it may be a whole token.

use reqlore_application::identity::tokens::{
    self, IssuedToken, RevokedToken, TokenLifetime, TokenRequest, TokenSummary,
};
use reqlore_domain::identity::{Access, Token, TokenId, User, UserName, UserRole};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use serde_json::{Value, json};

use super::output::write_stdout;
use crate::commands::output::{format_table, print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::console::eprint_line;
use crate::exit::{CommandError, EXIT_OK, Result};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it once
    Create(CreateOptions),
    /// List all tokens, including expired and revoked ones
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token at once
    Revoke {
        /// The ID from `reqlore token list`
        id: String,
    },
    /// Replace a token with a new one of the same lifetime, and print it once
    Rotate {
        /// The ID from `reqlore token list`
        id: String,
        /// How long the old token stays valid, at most 24h
        #[arg(
            long,
            value_name = "TIME",
            default_value = "0s",
            value_parser = TokenLifetime::parse_overlap
        )]
        overlap: TokenLifetime,
        /// Print the token and its properties as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateOptions {
    /// The owner
    #[arg(long, value_name = "NAME", value_parser = UserName::parse)]
    user: UserName,
    /// Maximum access, even if the user's role allows more: write, read, or metrics (only
    /// /metrics)
    #[arg(long, value_name = "SCOPE", default_value = "write", value_parser = parse_scope)]
    scope: Access,
    /// Keys of the projects that it may use; the first is the default project
    /// [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    projects: Vec<String>,
    /// Lifetime, from 1s to 366d (s, m, h, d)
    #[arg(
        long,
        value_name = "TIME",
        default_value_t = TokenLifetime::DEFAULT,
        value_parser = TokenLifetime::parse_lifetime
    )]
    expires: TokenLifetime,
    /// Print the token and its properties as JSON
    #[arg(long)]
    json: bool,
}

fn parse_scope(text: &str) -> Result<Access, String> {
    let found = Access::ALL.into_iter().find(|access| access.name() == text);
    found.ok_or_else(|| "the scopes are write, read and metrics".to_owned())
}

pub(crate) async fn run(config: &AppConfig, command: &TokenCommand) -> Result<u8> {
    let admin = composition::open_administration(config, false)?;
    match command {
        TokenCommand::Create(CreateOptions { user, scope, projects, expires, json }) => {
            let projects = projects.iter().map(|key| ProjectKey::new(key.trim())).collect();
            let (user, scope, lifetime) = (user.clone(), *scope, *expires);
            let issued =
                tokens::create_token(&admin, TokenRequest { user, scope, projects, lifetime })
                    .await?;
            print_token(&issued, *json)?;
            // On standard error, so that a script reads only the token.
            eprint_line(&token_summary(&issued));
            Ok(EXIT_OK)
        }
        TokenCommand::List { json } => {
            let all = tokens::list_tokens(&admin).await?;
            if *json { print_json(&tokens_json(&all)) } else { print(&tokens_table(&all)) }
        }
        TokenCommand::Revoke { id } => {
            let RevokedToken { token, unchanged } =
                tokens::revoke_token(&admin, parse_id(id)?).await?;
            let since = token.revoked_at.unwrap_or_default().to_rfc3339();
            print(&if unchanged {
                format!("{} has been revoked since {since}.\n", token.id)
            } else {
                format!("{} is revoked.\n", token.id)
            })
        }
        TokenCommand::Rotate { id, overlap, json } => {
            let id = parse_id(id)?;
            let issued = tokens::rotate_token(&admin, id.clone(), *overlap).await?;
            print_token(&issued, *json)?;
            let old = if *overlap == TokenLifetime::default() {
                "is no longer valid".to_owned()
            } else {
                format!("stays valid for at most {overlap}")
            };
            eprint_line(&format!("{}\nThe old token, {id}, {old}.", token_summary(&issued)));
            Ok(EXIT_OK)
        }
    }
}

fn parse_id(id: &str) -> Result<TokenId> {
    TokenId::parse(id).ok_or_else(|| {
        CommandError::usage_error(
            "ID: must be the 12 letters and digits after reqlore_pat_; `reqlore token list` shows \
             all",
        )
    })
}

/// Prints the token alone to standard output.
fn print_token(issued: &IssuedToken, as_json: bool) -> Result<()> {
    let IssuedToken { presented, token, .. } = issued;
    let text = if as_json {
        let mut shown = token_json(token);
        shown["token"] = json!(presented.reveal());
        format!("{shown:#}\n")
    } else {
        presented.reveal() + "\n"
    };
    write_stdout(&text).map(drop).map_err(|error| {
        CommandError::failure(format!(
            "the token could not be printed and is lost; revoke it with `reqlore token revoke {}` \
             and create another one. {}",
            token.id, error.message
        ))
    })
}

fn token_summary(issued: &IssuedToken) -> String {
    let IssuedToken { token, user: User { name, role, .. }, .. } = issued;
    let projects = match &token.projects[..] {
        [] => "all projects".to_owned(),
        keys => format!("the projects {}", join_keys(keys)),
    };
    let narrowed = match (role, token.scope) {
        (UserRole::Commenter, Access::Write) => " (a commenter's token can only read)",
        _ => "",
    };
    format!(
        "Token {} of {name} ({role}): {}{narrowed}, {projects}, until {}.\nIt is not shown again. \
         Clients send it as `Authorization: Bearer TOKEN`.",
        token.id,
        token.scope.name(),
        token.expires_at.to_rfc3339()
    )
}

fn join_keys(projects: &[ProjectKey]) -> String {
    projects.iter().map(ProjectKey::as_str).collect::<Vec<_>>().join(",")
}

fn token_json(token: &Token) -> Value {
    json!({
        "id": token.id,
        "user": token.user,
        "scope": token.scope,
        "projects": token.projects,
        "created_at": token.created_at.to_rfc3339(),
        "expires_at": token.expires_at.to_rfc3339(),
    })
}

fn tokens_json(all: &[TokenSummary]) -> Value {
    let mut tokens = Vec::new();
    for TokenSummary { token, state } in all {
        let mut shown = token_json(token);
        shown["last_used_at"] = json!(token.last_used_at.map(Timestamp::to_rfc3339));
        shown["state"] = json!(state.name());
        shown["successor"] = json!(token.successor);
        tokens.push(shown);
    }
    json!({ "tokens": tokens })
}

fn tokens_table(all: &[TokenSummary]) -> String {
    if all.is_empty() {
        return "There are no tokens. Create one with `reqlore token create --user NAME`.\n"
            .to_owned();
    }
    let headings = ["ID", "USER", "SCOPE", "PROJECTS", "CREATED", "EXPIRES", "LAST USED", "STATE"];
    let mut rows = Vec::new();
    for TokenSummary { token, state } in all {
        let projects = if token.projects.is_empty() { "all" } else { &join_keys(&token.projects) };
        let used = token.last_used_at.map_or_else(|| "never".to_owned(), Timestamp::to_rfc3339);
        let successor = token.successor.as_ref().map(|id| format!(", replaced by {id}"));
        rows.push([
            token.id.to_string(),
            token.user.to_string(),
            token.scope.name().to_owned(),
            projects.to_owned(),
            token.created_at.to_rfc3339(),
            token.expires_at.to_rfc3339(),
            used,
            state.name().replace('_', " ") + &successor.unwrap_or_default(),
        ]);
    }
    format_table(headings, rows)
}
