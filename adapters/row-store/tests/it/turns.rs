//! Runs clients and the writers of servers one at a time, in an order that a seed repeats.
//!
//! A writer stops before each call of its database. A client stops where it waits.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use reqlore_storage_memory::database::WaitTurn;
use reqlore_storage_memory::seeded_random::SeededRandom;

thread_local! {
    /// The server of which this thread is the writer.
    static SERVER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A client.
pub(crate) type ClientTask = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Debug, Default)]
pub(crate) struct TurnKeeper {
    state: Mutex<Turns>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    writers: Vec<WriterState>,
    clients: Vec<ClientState>,
    /// The client that runs.
    client: usize,
    is_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriterState {
    Running,
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientState {
    Ready,
    /// Waits for the writer of this server, or for nothing that is known.
    Waiting(Option<usize>),
    Finished,
}

impl Turns {
    /// True if nothing happens until the next turn: the writers of all clients that wait have
    /// stopped, and the others have no work.
    fn is_still(&self) -> bool {
        self.clients.iter().all(|client| match client {
            ClientState::Waiting(Some(server)) => self.writers[*server] == WriterState::Stopped,
            _ => true,
        })
    }
}

impl TurnKeeper {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the number of the writer of another server.
    pub(crate) fn add_writer(&self) -> usize {
        let mut turns = self.lock();
        turns.writers.push(WriterState::Running);
        turns.writers.len() - 1
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        // A failed check must not keep the writers from their ends.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the writer of a server: waits for its turn.
    pub(crate) fn pause_of(self: &Arc<Self>, server: usize) -> WaitTurn {
        let keeper = Arc::clone(self);
        Arc::new(move || {
            SERVER.set(Some(server));
            keeper.wait_for_turn(server);
        })
    }

    /// Called by a writer that waits for another one.
    pub(crate) fn pause_of_writer(self: &Arc<Self>) -> WaitTurn {
        let keeper = Arc::clone(self);
        Arc::new(move || keeper.wait_for_turn(SERVER.get().unwrap()))
    }

    fn wait_for_turn(&self, server: usize) {
        let mut turns = self.lock();
        turns.writers[server] = WriterState::Stopped;
        self.changed.notify_all();
        while turns.writers[server] == WriterState::Stopped && !turns.is_over {
            turns = self.changed.wait(turns).unwrap();
        }
    }

    /// Runs a call of a server that may wait for its writer.
    pub(crate) async fn on_server<T>(&self, server: usize, call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        std::future::poll_fn(|context| {
            {
                // A call that does not wait is ready again before the client stops.
                let mut turns = self.lock();
                let client = turns.client;
                turns.clients[client] = ClientState::Waiting(Some(server));
            }
            let polled = call.as_mut().poll(context);
            if polled.is_ready() {
                let mut turns = self.lock();
                let client = turns.client;
                turns.clients[client] = ClientState::Waiting(None);
            }
            polled
        })
        .await
    }

    /// Runs clients to their ends.
    pub(crate) fn run(self: &Arc<Self>, random: &mut SeededRandom, mut tasks: Vec<ClientTask>) {
        self.lock().clients = vec![ClientState::Ready; tasks.len()];
        let wakers: Vec<Waker> = (0..tasks.len())
            .map(|client| Waker::from(Arc::new(ClientWaker { keeper: Arc::clone(self), client })))
            .collect();
        loop {
            let mut turns = self.lock();
            while !turns.is_still() {
                turns = self.changed.wait(turns).unwrap();
            }
            let mut ready = Vec::new();
            for (client, state) in turns.clients.iter().enumerate() {
                if *state == ClientState::Ready {
                    ready.push((true, client));
                }
            }
            for (server, state) in turns.writers.iter().enumerate() {
                if *state == WriterState::Stopped {
                    ready.push((false, server));
                }
            }
            if turns.clients.iter().all(|client| *client == ClientState::Finished) {
                return;
            }
            assert!(!ready.is_empty(), "no client and no writer can continue: {turns:?}");
            let (is_client, number) = ready[random.within(0..ready.len())];
            if !is_client {
                turns.writers[number] = WriterState::Running;
                self.changed.notify_all();
                continue;
            }
            turns.clients[number] = ClientState::Waiting(None);
            turns.client = number;
            drop(turns);
            let polled = tasks[number].as_mut().poll(&mut Context::from_waker(&wakers[number]));
            if matches!(polled, Poll::Ready(())) {
                self.lock().clients[number] = ClientState::Finished;
            }
        }
    }

    /// Lets all writers run from now on.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }
}

struct ClientWaker {
    keeper: Arc<TurnKeeper>,
    client: usize,
}

impl Wake for ClientWaker {
    fn wake(self: Arc<Self>) {
        let mut turns = self.keeper.lock();
        if turns.clients[self.client] != ClientState::Finished {
            turns.clients[self.client] = ClientState::Ready;
        }
        self.keeper.changed.notify_all();
    }
}
