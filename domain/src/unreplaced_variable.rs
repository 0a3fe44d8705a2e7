//! Finds variables in paths and URLs that a client or a shell should have replaced.

use crate::identity::redact_echo;

/// Rejects a path or URL with a variable that a client or a shell should have replaced. It would
/// become a folder of that name.
pub fn check_replaced(path: &str) -> Result<(), String> {
    let braced = path.split_once("${").and_then(|(_, rest)| rest.split_once('}'));
    let percent = path.split_once('%').and_then(|(before, rest)| {
        let is_start = before.is_empty() || before.ends_with(['/', '\\']);
        rest.split_once('%').filter(|_| is_start)
    });
    let is_name = |name: &str| name.contains(char::is_alphabetic) && !name.contains(['-', '/']);
    let first = path.split(['/', '\\']).next().unwrap_or_default();
    let wanted = if path.contains("://") { "URL" } else { "path" };
    let variable = match (braced, percent) {
        (Some((name, _)), _) => format!("${{{name}}}"),
        // Only a path has no percent-encoding.
        _ if wanted == "URL" => return Ok(()),
        (_, Some((name, _))) if is_name(name) => format!("%{name}%"),
        _ if first.starts_with(['$', '~']) && first != "$" => first.to_owned(),
        _ => return Ok(()),
    };
    let variable = redact_echo(&variable);
    Err(format!("the variable {variable} was not replaced by your client; write the full {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_in_paths_that_nobody_replaced_are_named() {
        for (path, named) in [
            ("${workspaceFolder}/x.db", "variable ${workspaceFolder}"),
            ("/home/a/${env:USER}/x", "variable ${env:USER}"),
            ("./${PWD}", "variable ${PWD}"),
            ("$HOME", "variable $HOME"),
            ("$PWD/data", "variable $PWD"),
            ("$env:APPDATA\\reqlore", "variable $env:APPDATA"),
            ("$(pwd)/x", "variable $(pwd)"),
            ("/srv/%PROJECT%/db", "variable %PROJECT%"),
            ("%USERPROFILE%\\app", "variable %USERPROFILE%"),
            ("%CD%", "variable %CD%"),
            ("C:/%APP_DATA%/x", "variable %APP_DATA%"),
            ("~", "variable ~"),
            ("~/app", "variable ~"),
            ("~ann/app", "variable ~ann"),
            ("postgres://u@${DB_HOST}/n", "variable ${DB_HOST}"),
        ] {
            let error = check_replaced(path).unwrap_err();
            assert!(error.starts_with(&format!("the {named} was not replaced by")), "{error}");
        }
        for path in [
            "",
            ".",
            "/home/a/b",
            "a~",
            "/x/~",
            "./$",
            "/c/$Recycle.Bin",
            "100%",
            "/a/50%-100%",
            "a${b",
            "postgres://u:$PW%41B%42@h/n",
            "postgres://~@h/n",
        ] {
            assert_eq!(check_replaced(path), Ok(()), "{path}");
        }
    }
}
