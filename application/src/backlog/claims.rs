//! `claim_item` and `unclaim_item`: keep two assistants from working on one story. The live claims
//! for views.

use std::collections::BTreeMap;

use async_trait::async_trait;
use reqlore_domain::backlog::claim::{Claim, ClaimAction, ClaimChange, ClaimRefusal, claim_key};
use reqlore_domain::backlog::{ItemKind, ItemMeta};
use reqlore_domain::bounded_types::{BoundedInt, BoundedString};
use reqlore_domain::document::{Document, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::claims::ClaimReach;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::claims::ClaimView;
use reqlore_domain::records::schema::{RecordSchema, StatusCategory};
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::encode_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::UserStoryRef;
use super::item_lookup::{BacklogReader, item_meta};
use crate::answers::answer::{ToolAnswer, text_answer};
use crate::ports::ApplicationPorts;
use crate::tools::tool::{Tool, ToolRequest, write_tool};

const DEFAULT_MINUTES: usize = 120;
/// Letters of an ID.
const ID_LETTERS: usize = 12;
/// Maximum characters of a client's name in a holder.
const MAX_CLIENT_CHARS: usize = 60;

/// The live claims of a project, by the keys of their stories.
#[derive(Default)]
pub(crate) struct LiveClaims(BTreeMap<String, Claim>);

impl LiveClaims {
    /// The claims of a project; none, with a warning in the log, if they cannot be read.
    pub(crate) async fn read(ports: &ApplicationPorts, project: &ProjectKey) -> Self {
        let claims = match ports.claims.live_claims(project, ports.clock.now()).await {
            Ok(claims) => claims,
            Err(error) => {
                tracing::warn!(%error, "the claims of stories could not be read");
                Vec::new()
            }
        };
        Self(claims.into_iter().map(|claim| (claim.story.clone(), claim)).collect())
    }

    /// The claims for a view of these items.
    pub(crate) async fn for_view(
        backlog: BacklogReader<'_>,
        metas: impl IntoIterator<Item = &DocumentMeta>,
    ) -> Self {
        let story = DocumentKind::Item(ItemKind::UserStory);
        if metas.into_iter().all(|meta| meta.id.kind != story) {
            return Self::default();
        }
        Self::read(backlog.ports, backlog.project).await
    }

    /// The claim of a story, unless that is done or dropped.
    pub(crate) fn find(&self, meta: &DocumentMeta, schema: &RecordSchema) -> Option<&Claim> {
        let item = item_meta(meta).filter(|item| item.kind == ItemKind::UserStory)?;
        let claim = self.0.get(&claim_key(item)?)?;
        (!is_finished(item, schema)).then_some(claim)
    }

    pub(crate) fn view(&self, meta: &DocumentMeta, schema: &RecordSchema) -> Option<ClaimView> {
        self.find(meta, schema).map(ClaimView::new)
    }
}

/// True for an item that is done or dropped.
fn is_finished(item: &ItemMeta, schema: &RecordSchema) -> bool {
    let category = item.status.map(|status| schema.category(item.kind, status));
    matches!(category, Some(StatusCategory::Done | StatusCategory::Dropped))
}

/// Ends the claims of the written stories that are done or dropped. The write is committed, so a
/// failure is only logged.
pub(crate) async fn end_finished_claims(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    written: &[(Option<Document>, Document)],
) {
    let mut keys = Vec::new();
    for (_, document) in written {
        if document.id.kind != DocumentKind::Item(ItemKind::UserStory) {
            continue;
        }
        let meta = DocumentMeta::from_document(document, Timestamp::default());
        if let (Some(item), Ok(schema)) = (item_meta(&meta), ports.schema(project).await)
            && is_finished(item, &schema)
        {
            keys.extend(claim_key(item));
        }
    }
    if keys.is_empty() {
        return;
    }
    let at = ports.clock.now();
    let ending = async {
        let live = ports.claims.live_claims(project, at).await?;
        for claim in live.into_iter().filter(|claim| keys.contains(&claim.story)) {
            let action = ClaimAction::Release { id: None };
            let change = ClaimChange { story: claim.story, action, at };
            // Without an ID nothing is refused.
            let _ = ports.claims.change_claim(project, change).await?;
        }
        Result::<()>::Ok(())
    };
    if let Err(error) = ending.await {
        tracing::warn!(%error, "the claim of a finished story was not ended");
    }
}

pub(crate) struct ClaimItem;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    id: UserStoryRef,
    /// 5 to 1440, default 120.
    for_minutes: Option<BoundedInt<5, 1_440>>,
    /// To renew or release.
    #[schemars(with = "Option<String>")]
    claim: Option<BoundedString<100>>,
    /// Ends the claim.
    #[serde(default)]
    release: bool,
}

#[derive(Serialize, JsonSchema)]
struct ClaimAnswer {
    reference_id: String,
    // Absent after a release, like the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reach: Option<&'static str>,
}

#[async_trait]
impl Tool for ClaimItem {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, ClaimAnswer>(
            "claim_item",
            "Claim a story before working on it",
            "Claims a story for some time, so that no other assistant takes it.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let minutes = arguments.for_minutes.map_or(DEFAULT_MINUTES, BoundedInt::get);
        let seconds = i64::try_from(minutes * 60).unwrap_or_default();
        let action = match (arguments.claim, arguments.release) {
            (Some(id), false) => ClaimAction::Renew { id: id.as_str().to_owned(), seconds },
            (Some(id), true) => ClaimAction::Release { id: Some(id.as_str().to_owned()) },
            (None, true) => {
                let message = "claim: missing; release: true needs the claim of the first answer";
                return Err(Error::new(ErrorKind::InvalidArgument, message).field("claim"));
            }
            (None, false) => {
                let (id, holder) = (new_id(&request)?, holder(&request.call));
                ClaimAction::Claim { id, holder, seconds }
            }
        };
        change_claim(&request, &arguments.id, action).await
    }
}

/// The user, and the name of the client program if it gives one, such as `ann (claude-code)`.
fn holder(call: &ToolCall) -> String {
    let user = &call.caller.name;
    // Other characters could imitate the text around the name.
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || " ._/-".contains(*c);
    let client = call.client_name.as_deref().unwrap_or_default();
    let client: String = client.chars().filter(is_plain).take(MAX_CLIENT_CHARS).collect();
    match client.trim() {
        "" => user.to_string(),
        client => format!("{user} ({client})"),
    }
}

/// A retry with the same idempotency key gets the same ID, and so the same claim.
fn new_id(request: &ToolRequest<'_>) -> Result<String> {
    match &request.context.idempotency_key {
        Some(key) => Ok(key.key.chars().take(2 * ID_LETTERS).collect()),
        None => request.context.ports.ids.random_letters(ID_LETTERS),
    }
}

/// The tool of the command `unclaim`, which no list names to models.
pub(crate) struct UnclaimItem;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UnclaimArguments {
    id: UserStoryRef,
}

#[async_trait]
impl Tool for UnclaimItem {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            is_listed: false,
            ..write_tool::<UnclaimArguments, ClaimAnswer>(
                "unclaim_item",
                "End the claim of a story",
                "Ends the claim of a story, also that of another holder.",
            )
        }
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: UnclaimArguments = request.decode()?;
        change_claim(&request, &arguments.id, ClaimAction::Release { id: None }).await
    }
}

async fn change_claim(
    ToolRequest { context, call, .. }: &ToolRequest<'_>,
    id: &UserStoryRef,
    action: ClaimAction,
) -> Result<ToolAnswer> {
    let (ports, project) = (&context.ports, &call.caller.project);
    let reference = id.parse("id")?;
    let meta =
        BacklogReader::for_caller(ports, &call.caller).find_argument(reference, "id").await?;
    let id = reference.to_string();
    let refused = |message: String| Error::new(ErrorKind::Conflict, message).reference(&*id);
    let item = item_meta(&meta).and_then(|item| Some((item, claim_key(item)?)));
    let Some((item, story)) = item else {
        return Err(Error::new(ErrorKind::Internal, "The story has no metadata."));
    };
    let (is_renewal, is_release) = match &action {
        ClaimAction::Claim { .. } => (false, false),
        ClaimAction::Renew { .. } => (true, false),
        ClaimAction::Release { .. } => (false, true),
    };
    if !is_release && is_finished(item, &*ports.schema(project).await?) {
        let status = item.status.map(|status| encode_line(status.name()).into_owned());
        let status = status.unwrap_or_default();
        return Err(refused(format!("{id} is {status}; list_ready lists stories to claim")));
    }
    let change = ClaimChange { story, action, at: ports.clock.now() };
    let (decision, reach) = ports.claims.change_claim(project, change).await?;
    let (claim, text) = match decision {
        Ok(None) => (None, format!("Released {id}")),
        Ok(Some(claim)) => {
            let text = claimed_text(&id, &claim, is_renewal, reach);
            (Some(claim), text)
        }
        // Also after an earlier release.
        Err(ClaimRefusal::Ended) if is_release => {
            (None, format!("{id} has no claim, so none was released"))
        }
        Err(ClaimRefusal::Ended) => {
            let message = format!("claim: that of {id} has ended; omit claim to claim it again");
            return Err(refused(message).field("claim"));
        }
        Err(ClaimRefusal::Held(claim)) => {
            let (holder, until) = (encode_line(&claim.holder), claim.until.to_rfc3339());
            return Err(refused(format!(
                "{id} is claimed by {holder} until {until}; list_ready lists other stories"
            )));
        }
    };
    let answer = ClaimAnswer {
        reference_id: id.clone(),
        holder: claim.as_ref().map(|claim| claim.holder.clone()),
        until: claim.as_ref().map(|claim| claim.until.to_rfc3339()),
        reach: claim.as_ref().map(|_| reach.name()),
        claim: claim.map(|claim| claim.id),
    };
    text_answer(text, &answer)
}

fn claimed_text(id: &str, claim: &Claim, is_renewal: bool, reach: ClaimReach) -> String {
    let done = if is_renewal { "Renewed the claim of" } else { "Claimed" };
    let (own, until, reach) = (encode_line(&claim.id), claim.until.to_rfc3339(), reach.name());
    format!(
        "{done} {id} until {until} in {reach}. To renew, pass claim: {own}; to stop, add \
         release: true. Done ends it too."
    )
}
