//! The values of settings, and their sources.

use std::str::FromStr;

use reqlore_domain::identity::redact_echo;

use crate::config::file::ConfigFile;
use crate::config::paths::env_variable;
use crate::exit::{CommandError, Result};
use crate::settings::{self, Setting, SettingFlags, ValueSyntax};

/// A setting's value as it was written, and its source.
#[derive(Debug)]
pub(crate) struct SettingValue {
    pub(crate) setting: Setting,
    pub(crate) text: String,
    pub(crate) source: String,
}

#[derive(Debug)]
pub(crate) struct SettingValues(pub(crate) Vec<SettingValue>);

impl SettingValues {
    pub(crate) fn read(flags: &SettingFlags, file: &ConfigFile) -> Self {
        let settings = settings::all_settings();
        Self(settings.map(|setting| SettingValue::from_sources(setting, flags, file)).collect())
    }

    pub(crate) fn require_value(&self, key: &str) -> Result<&SettingValue> {
        let found = self.0.iter().find(|value| value.setting.key == key);
        found.ok_or_else(|| CommandError::failure(format!("{key} is not a setting")))
    }

    /// `None` if the value is empty.
    pub(crate) fn non_empty(&self, key: &str) -> Option<&SettingValue> {
        self.require_value(key).ok().filter(|value| !value.text.is_empty())
    }

    pub(crate) fn text_or_empty(&self, key: &str) -> &str {
        self.non_empty(key).map_or("", |value| &value.text)
    }

    pub(crate) fn list_items(&self, key: &str) -> Vec<&str> {
        split_list(self.text_or_empty(key))
    }

    pub(crate) fn parse_text<T: FromStr>(&self, key: &str, expected: &str) -> Result<T> {
        let value = self.require_value(key)?;
        value.text_or_default().parse().map_err(|_| value.invalid_value(expected))
    }

    pub(crate) fn parse_number(&self, key: &str) -> Result<u32> {
        let value = self.require_value(key)?;
        let ValueSyntax::Number(min, max) = value.setting.syntax else {
            return Err(value.invalid_value("a setting with bounds"));
        };
        match value.text_or_default().parse() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ if max == u32::MAX => {
                Err(value.invalid_value(&format!("a number of at least {min}")))
            }
            _ => Err(value.invalid_value(&format!("a number from {min} to {max}"))),
        }
    }

    pub(crate) fn parse_choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T> {
        let value = self.require_value(key)?;
        let mut names = Vec::new();
        for (name, choice) in choices {
            if *name == value.text_or_default() {
                return Ok(*choice);
            }
            names.push(*name);
        }
        Err(value.invalid_value(&names.join(" or ")))
    }
}

/// The items between commas or line ends.
pub(crate) fn split_list(text: &str) -> Vec<&str> {
    let mut items: Vec<&str> = text.split([',', '\n']).map(str::trim).collect();
    items.retain(|item| !item.is_empty());
    items
}

impl SettingValue {
    pub(crate) fn is_from_file(&self) -> bool {
        self.source.starts_with("file")
    }

    pub(crate) fn text_or_default(&self) -> &str {
        if self.text.is_empty() { self.setting.default } else { &self.text }
    }

    pub(crate) fn invalid_value(&self, expected: &str) -> CommandError {
        let (key, source) = (self.setting.key, &self.source);
        CommandError::usage_error(format!(
            "{key}: {:?} ({source}) must be {expected}",
            redact_echo(&self.text)
        ))
    }

    pub(crate) fn refused_in_found_file(&self, when: &str) -> CommandError {
        self.refused(&format!("may not be set by a project's own file{when}"))
    }

    /// The message for a value of a found file, with the ways to set it nevertheless.
    pub(crate) fn refused(&self, rule: &str) -> CommandError {
        let Self { setting, text, source } = self;
        let mut ways = String::new();
        for name in [setting.flag, setting.variable].into_iter().flatten() {
            ways += &format!("{}{name}", if ways.is_empty() { "use " } else { " or " });
        }
        if !ways.is_empty() {
            ways += ", or ";
        }
        let shown = redact_echo(text.trim_end());
        CommandError::usage_error(format!(
            "{}: {shown:?} ({source}) {rule}; {ways}pass the file with --config",
            setting.key
        ))
    }

    pub(crate) fn from_sources(setting: Setting, flags: &SettingFlags, file: &ConfigFile) -> Self {
        let from_environment = setting.variable.and_then(|name| Some((name, env_variable(name)?)));
        let (text, source) = if let Some(text) = flags.get(setting.key) {
            (text, format!("flag {}", setting.flag.unwrap_or_default()))
        } else if let Some((name, text)) = from_environment {
            (text, format!("environment {name}"))
        } else if let Some(text) = file.get(setting.key) {
            (text.clone(), format!("file {}", file.path.display()))
        } else {
            (setting.default.to_owned(), "default".to_owned())
        };
        Self { setting, text, source }
    }
}
