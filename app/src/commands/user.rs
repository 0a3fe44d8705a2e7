//! `reqlore user`: administers the users of a server.

use reqlore_application::identity::user_admin::{self, UserChange};
use reqlore_domain::identity::{Role, User, UserName};
use reqlore_domain::timestamp::Timestamp;
use serde_json::{Value, json};

use super::{print, print_json, table};
use crate::composition;
use crate::config::Config;
use crate::exit::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Add a user; `reqlore token create` then makes a token for them
    Add {
        /// 1 to 64 letters, digits, '.', '_', '@', '+' and '-'; case does not count
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
    /// Give a user another role, from their next request on
    SetRole {
        #[arg(value_parser = UserName::parse)]
        name: UserName,
        #[command(flatten)]
        role: RoleArgument,
    },
    /// Reject all tokens of a user, permanently
    Disable {
        #[arg(value_parser = UserName::parse)]
        name: UserName,
    },
}

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct RoleArgument {
    /// administrator (everything), user (reads and writes) or commenter (reads)
    #[arg(long = "role", value_name = "ROLE", value_parser = role)]
    role: Role,
}

fn role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| {
        let names = Role::ALL.map(Role::name).join(", ");
        format!("the roles are {names}")
    })
}

pub(crate) async fn run(config: &Config, command: &Command) -> Result<u8, CommandError> {
    let is_first = matches!(command, Command::Add { .. });
    let of = composition::administration(config, is_first)?;
    match command {
        Command::Add { name, role } => {
            let User { name, role, .. } = user_admin::add(&of, name.clone(), role.role).await?;
            print(&format!(
                "{name} is added as {role}. Make a token for them with\n  reqlore {}token create \
                 --user {name}\n",
                config.store_flags()
            ))
        }
        Command::List { json } => {
            let users = user_admin::list(&of).await?;
            if *json { print_json(&users_json(&users)) } else { print(&lines(&users)) }
        }
        Command::SetRole { name, role } => {
            let UserChange { user: User { name, role, .. }, unchanged } =
                user_admin::set_role(&of, name.clone(), role.role).await?;
            let since = if unchanged { "already" } else { "from the next request on" };
            print(&format!("{name} has the role {role} {since}.\n"))
        }
        Command::Disable { name } => {
            let UserChange { user, unchanged } = user_admin::disable(&of, name.clone()).await?;
            let since = user.disabled_at.unwrap_or_default().rfc3339();
            print(&if unchanged {
                format!("{} has been disabled since {since}.\n", user.name)
            } else {
                format!("{} is disabled: all tokens of this user are invalid.\n", user.name)
            })
        }
    }
}

fn users_json(users: &[User]) -> Value {
    let user = |user: &User| -> Value {
        json!({
            "name": user.name,
            "role": user.role,
            "created_at": user.created_at.rfc3339(),
            "disabled_at": user.disabled_at.map(Timestamp::rfc3339),
        })
    };
    let users: Vec<Value> = users.iter().map(user).collect();
    json!({ "users": users })
}

fn lines(users: &[User]) -> String {
    if users.is_empty() {
        return "There is no user; reqlore user add NAME --role administrator adds one.\n"
            .to_owned();
    }
    let line = |user: &User| {
        let state = user.disabled_at.map_or_else(
            || "active".to_owned(),
            |since| format!("disabled since {}", since.rfc3339()),
        );
        [user.name.to_string(), user.role.to_string(), user.created_at.rfc3339(), state]
    };
    table(["NAME", "ROLE", "CREATED", "STATE"], users.iter().map(line))
}
