//! A call's line to whoever made it: MCP's progress and cancellation.

use reqlore_domain::ports::service::ProgressSink;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

/// The application's end.
#[derive(Debug)]
pub(crate) struct Line {
    cancelled: CancellationToken,
    /// Absent when the caller wants no progress.
    progress: Option<(ProgressToken, UnboundedSender<ProgressNotificationParam>)>,
}

/// The peer's end: what is to be told before the answer.
pub(crate) struct Told {
    peer: Peer<RoleServer>,
    /// Who took the call back wants to hear no more of it.
    cancelled: CancellationToken,
    progress: UnboundedReceiver<ProgressNotificationParam>,
}

pub(crate) fn line(context: &RequestContext<RoleServer>) -> (Line, Told) {
    let (sender, progress) = unbounded_channel();
    let token = context.meta.get_progress_token();
    let line = Line { cancelled: context.ct.clone(), progress: token.map(|token| (token, sender)) };
    let (peer, cancelled) = (context.peer.clone(), context.ct.clone());
    (line, Told { peer, cancelled, progress })
}

impl ProgressSink for Line {
    fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of documents")]
    fn progress(&self, done: usize, total: usize, message: &str) {
        if let Some((token, sender)) = &self.progress {
            let told = ProgressNotificationParam::new(token.clone(), done as f64)
                .with_total(total as f64)
                .with_message(message);
            // Who waits for no progress any more waits for no answer either.
            let _ = sender.send(told);
        }
    }
}

impl Told {
    /// Tells what comes until the call is done.
    pub(crate) async fn until<T>(&mut self, call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        loop {
            tokio::select! {
                biased;
                Some(told) = self.progress.recv() => self.tell(told).await,
                outcome = &mut call => {
                    // What was told before the end is told before the answer.
                    while let Ok(told) = self.progress.try_recv() {
                        self.tell(told).await;
                    }
                    return outcome;
                }
            }
        }
    }

    async fn tell(&self, told: ProgressNotificationParam) {
        if !self.cancelled.is_cancelled() {
            // Who does not hear it any more gets no answer either.
            let _ = self.peer.notify_progress(told).await;
        }
    }
}
