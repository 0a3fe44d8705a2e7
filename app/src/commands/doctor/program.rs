//! This program, and the one that the name `reqlore` starts.

use super::finding::{Area, Findings};
use super::programs::Programs;
use super::{shown, started};

pub(super) const NAME: &str = "reqlore";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn look(programs: &Programs, findings: &mut Findings) {
    let place = programs.own.as_deref().map_or_else(String::new, shown);
    findings.ok(Area::Program, format!("{NAME} {VERSION}, {place}"));
    let Some(named) = programs.named(NAME) else {
        let folder = programs.own.as_deref().and_then(|own| own.parent()).map(shown);
        let next = format!(
            "add {} to PATH, or install it with `npm install --global {NAME}`",
            folder.unwrap_or_default()
        );
        let message = format!("no {NAME} on PATH: clients that start it by its name don't find it");
        return findings.warning(Area::Program, message, &next);
    };
    if programs.is_own(&named) {
        return findings.ok(Area::Program, format!("`{NAME}` on PATH is this one"));
    }
    let named_text = shown(&named);
    match started::ours(programs, &named, &[]) {
        Ok(hello) if hello.version == VERSION => findings
            .ok(Area::Program, format!("`{NAME}` on PATH is {named_text}, of the same version")),
        Ok(hello) => findings.warning(
            Area::Program,
            format!("`{NAME}` on PATH is {named_text}, another version: {}", hello.version),
            "clients start that one; update it, or remove the one that you don't want",
        ),
        Err(error) => findings.problem(
            Area::Program,
            format!("`{NAME}` on PATH is {named_text}, which {}", error.message),
            &error.next,
        ),
    }
}
