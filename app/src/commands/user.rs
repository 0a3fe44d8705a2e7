//! `reqlore user`: administers the users of a server.

use reqlore_application::identity::user_admin::{self, LastAdministrator, UserChange};
use reqlore_domain::identity::{User, UserName, UserRole};
use reqlore_domain::timestamp::Timestamp;
use serde_json::{Value, json};

use crate::commands::output::{format_table, print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::Result;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user; create their token with `reqlore token create`
    Add {
        /// 1 to 64 letters, digits, '.', '_', '@', '+' and '-'; case is ignored
        #[arg(value_parser = UserName::parse)]
        name: UserName,
        #[command(flatten)]
        role: RoleArgument,
    },
    /// List all users
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Change the role of a user from their next request on
    SetRole {
        #[arg(value_parser = UserName::parse)]
        name: UserName,
        #[command(flatten)]
        role: RoleArgument,
        #[command(flatten)]
        force: ForceArgument,
    },
    /// Disable a user and all their tokens
    Disable {
        #[arg(value_parser = UserName::parse)]
        name: UserName,
        #[command(flatten)]
        force: ForceArgument,
    },
    /// Enable a disabled user and their tokens, except expired and revoked ones
    Enable {
        #[arg(value_parser = UserName::parse)]
        name: UserName,
    },
}

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct ForceArgument {
    /// Even if no enabled administrator is left
    #[arg(long)]
    force: bool,
}

impl ForceArgument {
    fn last_administrator(self) -> LastAdministrator {
        if self.force { LastAdministrator::MayGo } else { LastAdministrator::Keep }
    }
}

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct RoleArgument {
    /// administrator (everything), user (reads and writes) or commenter (reads)
    #[arg(long = "role", value_name = "ROLE", value_parser = parse_role)]
    role: UserRole,
}

fn parse_role(text: &str) -> Result<UserRole, String> {
    UserRole::parse(text).ok_or_else(|| {
        let names = UserRole::ALL.map(UserRole::name).join(", ");
        format!("the roles are {names}")
    })
}

pub(crate) async fn run(config: &AppConfig, command: &UserCommand) -> Result<u8> {
    let is_first = matches!(command, UserCommand::Add { .. });
    let admin = composition::open_administration(config, is_first)?;
    match command {
        UserCommand::Add { name, role } => {
            let User { name, role, .. } =
                user_admin::add_user(&admin, name.clone(), role.role).await?;
            print(&format!(
                "{name} is added as {role}. Create a token for this user:\n  reqlore {}token \
                 create --user {name}\n",
                config.store_flags()
            ))
        }
        UserCommand::List { json } => {
            let users = user_admin::list_users(&admin).await?;
            if *json { print_json(&users_json(&users)) } else { print(&users_table(&users)) }
        }
        UserCommand::SetRole { name, role, force } => {
            let (name, last) = (name.clone(), force.last_administrator());
            let UserChange { user: User { name, role, .. }, unchanged } =
                user_admin::set_role(&admin, name, role.role, last).await?;
            let since = if unchanged { "already" } else { "from the next request on" };
            print(&format!("{name} has the role {role} {since}.\n"))
        }
        UserCommand::Disable { name, force } => {
            let (name, last) = (name.clone(), force.last_administrator());
            let UserChange { user, unchanged } =
                user_admin::disable_user(&admin, name, last).await?;
            let since = user.disabled_at.unwrap_or_default().to_rfc3339();
            print(&if unchanged {
                format!("{} has been disabled since {since}.\n", user.name)
            } else {
                format!("{} is disabled: all tokens of this user are invalid.\n", user.name)
            })
        }
        UserCommand::Enable { name } => {
            let UserChange { user, unchanged } =
                user_admin::enable_user(&admin, name.clone()).await?;
            print(&if unchanged {
                format!("{} is already enabled.\n", user.name)
            } else {
                format!(
                    "{} is enabled: tokens that are neither expired nor revoked are valid again.\n",
                    user.name
                )
            })
        }
    }
}

fn users_json(users: &[User]) -> Value {
    let mut shown = Vec::new();
    for user in users {
        shown.push(json!({
            "name": user.name,
            "role": user.role,
            "created_at": user.created_at.to_rfc3339(),
            "disabled_at": user.disabled_at.map(Timestamp::to_rfc3339),
        }));
    }
    json!({ "users": shown })
}

fn users_table(users: &[User]) -> String {
    if users.is_empty() {
        return "There are no users. Add one with `reqlore user add NAME --role administrator`.\n"
            .to_owned();
    }
    let mut rows = Vec::new();
    for user in users {
        let state = match user.disabled_at {
            None => "active".to_owned(),
            Some(since) => format!("disabled since {}", since.to_rfc3339()),
        };
        let created = user.created_at.to_rfc3339();
        rows.push([user.name.to_string(), user.role.to_string(), created, state]);
    }
    format_table(["NAME", "ROLE", "CREATED", "STATE"], rows)
}
