//! The project of a connection: chosen by the folders of the client, and named in the first answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::project_resolver::{ProjectResolver, Toolset};
use reqlore_domain::ports::service::RenderedAnswer;
use reqlore_domain::untrusted_text::encode_line;
use rmcp::RoleServer;
use rmcp::service::Peer;
use serde_json::{Map, Value};

use crate::convert::append_note;

/// Time for the client to list its folders. After it they are ignored.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(5);
/// Folders of a client that count.
const MAX_FOLDERS: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct ConnectionProject {
    /// True if the client may choose the project: no setting names it.
    pub(crate) follows_roots: AtomicBool,
    /// False after the client changed its folders. Locked while it is asked.
    is_asked: tokio::sync::Mutex<bool>,
    /// `None` is the server's own project. The error is why nothing may be written.
    choice: RwLock<Option<Result<Arc<Caller>, String>>>,
    /// True if an answer has named the folder.
    is_named: AtomicBool,
}

impl ConnectionProject {
    /// Returns the caller with the project of the connection.
    pub(crate) fn caller(&self, local: &Arc<Caller>) -> Arc<Caller> {
        match &*self.choice.read().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(caller)) => Arc::clone(caller),
            _ => Arc::clone(local),
        }
    }

    /// Asks the client for its folders, once and after each change of them.
    #[expect(deprecated, reason = "roots are part of the protocol before 2026-07-28")]
    pub(crate) async fn follow_roots(
        &self,
        peer: &Peer<RoleServer>,
        projects: &dyn ProjectResolver,
        local: &Arc<Caller>,
    ) {
        let has_roots = peer.peer_info().is_some_and(|info| info.capabilities.roots.is_some());
        if !has_roots || !self.follows_roots.load(Ordering::Relaxed) {
            return;
        }
        let mut is_asked = self.is_asked.lock().await;
        if *is_asked {
            return;
        }
        let answer = tokio::time::timeout(ROOTS_TIMEOUT, peer.list_roots()).await;
        *is_asked = true;
        let Ok(Ok(listed)) = answer else { return };
        let listed = listed.roots.iter().take(MAX_FOLDERS);
        let folders: Vec<_> = listed.filter_map(|root| file_path(&root.uri)).collect();
        let choice = match projects.choose_announced(local, &folders) {
            Ok(project) if project == local.project => None,
            Ok(project) => Some(Ok(Caller { project, ..(**local).clone() }.into())),
            Err(error) => Some(Err(error.message)),
        };
        *self.choice.write().unwrap_or_else(PoisonError::into_inner) = choice;
        self.is_named.store(false, Ordering::Relaxed);
    }

    /// The client's folders changed.
    pub(crate) async fn ask_again(&self) {
        *self.is_asked.lock().await = false;
    }

    /// Rejects a write that names no folder if the client works in other projects.
    pub(crate) fn check_write(
        &self,
        is_write: bool,
        arguments: &Map<String, Value>,
    ) -> Result<(), Error> {
        let names_folder = Toolset::ALL.iter().any(|toolset| {
            let named = arguments.get(toolset.argument()).and_then(Value::as_str);
            named.is_some_and(|folder| folder.starts_with('/'))
        });
        match &*self.choice.read().unwrap_or_else(PoisonError::into_inner) {
            Some(Err(message)) if is_write && !names_folder => {
                Err(Error::new(ErrorKind::Refused, message.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Names the project's folder and branch in the first answer of the connection, and in each
    /// write into a project that is not the server's own.
    pub(crate) async fn name_folder(
        &self,
        projects: &dyn ProjectResolver,
        caller: &Caller,
        is_write: bool,
        answer: &mut RenderedAnswer,
    ) {
        let is_due = is_write && !caller.project.is_default();
        // A text in JSON has no place for it; the next answer names the folder.
        let is_json = answer.text.starts_with(['{', '[']);
        if is_json || (!is_due && self.is_named.load(Ordering::Relaxed)) {
            return;
        }
        let Ok(folder) = projects.folder(&caller.project).await else { return };
        let branch = projects.branch(&caller.project);
        let branch = branch.map(|branch| format!(" (branch {branch})")).unwrap_or_default();
        append_note(answer, &encode_line(&format!("Project folder: {folder}{branch}.")));
        self.is_named.store(true, Ordering::Relaxed);
    }
}

/// The absolute path in a `file` URI.
fn file_path(uri: &str) -> Option<String> {
    let path = uri.strip_prefix("file:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = percent_decode_str(path).decode_utf8().ok()?;
    path.starts_with('/').then(|| path.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_uris_become_absolute_paths() {
        for (uri, path) in [
            ("file:///a/b", Some("/a/b")),
            ("file:///a%20b/%C3%A9", Some("/a b/é")),
            ("file:///a b", Some("/a b")),
            ("file://localhost/a/", Some("/a/")),
            ("file:/a", Some("/a")),
            ("file://server/share", None),
            ("file:///%ff", None),
            ("https://example.org/a", None),
            ("/a", None),
            ("", None),
        ] {
            assert_eq!(file_path(uri).as_deref(), path, "{uri}");
        }
    }
}
