//! Three servers on one simulated database with faults: clients with random operations, and checks
//! of every answer.
//!
//! `REQLORE_SIMULATION_SECONDS` sets the time in which new seeds run. `REQLORE_SIMULATION_SEED` runs
//! one seed, or those from it on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::panic::catch_unwind;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqlore_contract::audit::audit_event;
use reqlore_contract::faulty::{FaultPlan, FaultyDatabase};
use reqlore_contract::test_context;
use reqlore_domain::audit_log::AuditEvent;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::idempotency::IdempotencyKey;
use reqlore_domain::identity::{User, UserName, UserRole};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::change_page::Revision;
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, ReadSet, Snapshot, StoreError, StoreResult,
};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_row_store::RowStore;
use reqlore_row_store::database::Database;
use reqlore_storage_memory::database::MemoryDatabase;
use reqlore_storage_memory::seeded_random::SeededRandom;

use crate::change_reader::ChangeReader;
use crate::simulation_checks;
use crate::turns::{ClientTask, TurnKeeper};

/// Seeds that run without settings, from 1 on.
const USUAL_COUNT: u64 = 100;
const SERVERS: usize = 3;
const CLIENTS: usize = 6;
const OPERATIONS: usize = 7;
const ENTITIES: [&str; 5] =
    ["decisions/a", "decisions/b", "issues/a", "issues/dec-1d2c8f", "notes/n"];
const USERS: [&str; 4] = ["ada", "Ben", "cleo", "dan"];

/// The knowledge of a client about its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knowledge {
    Applied,
    Refused,
    Unknown,
}

/// The change of a document that a decision returned: the versions before and after.
pub(crate) type Change = (DocumentId, Option<Version>, Option<Version>);

/// The decisions on a write. The last one counts, but another server may have made it.
type Decisions = Arc<Mutex<Vec<Vec<Change>>>>;

/// A write of a client. Its tag is the reason of the change, and in each text.
#[derive(Debug)]
pub(crate) struct WriteRecord {
    pub(crate) project: usize,
    pub(crate) started: usize,
    pub(crate) ended: usize,
    pub(crate) knowledge: Knowledge,
    pub(crate) decisions: Vec<Vec<Change>>,
    pub(crate) revision: Option<Revision>,
    pub(crate) is_audited: bool,
    pub(crate) key: Option<String>,
    /// An acknowledged response of the write with its key.
    pub(crate) response: Option<String>,
}

#[derive(Debug)]
pub(crate) struct ReadRecord {
    pub(crate) project: usize,
    pub(crate) id: DocumentId,
    pub(crate) started: usize,
    pub(crate) ended: usize,
    pub(crate) version: Option<Version>,
}

#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Grows with every event.
    time: usize,
    pub(crate) writes: BTreeMap<String, WriteRecord>,
    pub(crate) reads: Vec<ReadRecord>,
    /// Users by the tag of their creation.
    pub(crate) users: BTreeMap<String, (UserName, Knowledge)>,
    pub(crate) events: BTreeMap<String, Knowledge>,
    documents: Vec<(usize, DocumentId, Option<Version>)>,
}

impl Journal {
    fn next_time(&mut self) -> usize {
        self.time += 1;
        self.time
    }
}

struct ServerProcess {
    turn: usize,
    store: Arc<dyn Store>,
    database: Arc<FaultyDatabase>,
}

pub(crate) struct World {
    keeper: Arc<TurnKeeper>,
    pub(crate) database: Arc<MemoryDatabase>,
    faulty: FaultyDatabase,
    servers: RefCell<Vec<Rc<ServerProcess>>>,
    /// Killed servers, whose writers end with the simulation.
    killed: RefCell<Vec<Rc<ServerProcess>>>,
    random: RefCell<SeededRandom>,
    pub(crate) journal: RefCell<Journal>,
    pub(crate) projects: [ProjectKey; 2],
}

impl World {
    fn new(seed: u64) -> Rc<Self> {
        let mut random = SeededRandom::new(seed);
        let keeper = TurnKeeper::new();
        let database = MemoryDatabase::new(random.next_number(), Some(keeper.pause_of_writer()));
        let series = if random.per_mille(500) { 2 } else { 40 };
        let plan = FaultPlan { rate: random.within(0..200), series, is_visible: series > 2 };
        let inner = Arc::clone(&database) as Arc<dyn Database>;
        Rc::new(Self {
            keeper,
            database,
            faulty: FaultyDatabase::new(inner, plan, random.next_number()),
            servers: RefCell::default(),
            killed: RefCell::default(),
            random: RefCell::new(random),
            journal: RefCell::default(),
            projects: [ProjectKey::default(), ProjectKey::new("/other")],
        })
    }

    fn within(&self, numbers: std::ops::Range<usize>) -> usize {
        self.random.borrow_mut().within(numbers)
    }

    fn per_mille(&self, rate: usize) -> bool {
        self.random.borrow_mut().per_mille(rate)
    }

    fn time(&self) -> usize {
        self.journal.borrow_mut().next_time()
    }

    fn server(&self) -> Rc<ServerProcess> {
        let number = self.within(0..SERVERS);
        Rc::clone(&self.servers.borrow()[number])
    }

    pub(crate) fn stores(&self) -> Vec<Arc<dyn Store>> {
        self.servers.borrow().iter().map(|server| Arc::clone(&server.store)).collect()
    }

    /// Starts a server. It repeats until the database can be reached.
    async fn start_server(&self) -> Rc<ServerProcess> {
        let turn = self.keeper.add_writer();
        loop {
            let database = Arc::new(self.faulty.for_server(self.keeper.pause_of(turn)));
            let opening = RowStore::start(Arc::clone(&database) as Arc<dyn Database>);
            if let Ok(store) = self.keeper.on_server(turn, opening).await {
                return Rc::new(ServerProcess { turn, store: Arc::new(store), database });
            }
        }
    }

    /// Calls a server.
    async fn call<T>(&self, server: &ServerProcess, call: impl Future<Output = T>) -> T {
        self.keeper.on_server(server.turn, call).await
    }

    /// Kills a server at any point, and starts another in its place.
    async fn restart_server(&self) {
        let number = self.within(0..SERVERS);
        let started = self.start_server().await;
        let old = std::mem::replace(&mut self.servers.borrow_mut()[number], started);
        old.database.is_dead.store(true, Ordering::Relaxed);
        self.killed.borrow_mut().push(old);
    }
}

/// The knowledge that an answer gives.
fn knowledge_of<T>(outcome: &StoreResult<T>) -> Knowledge {
    match outcome {
        Ok(_) | Err(StoreError::Repeated(_)) => Knowledge::Applied,
        Err(StoreError::Decided(_) | StoreError::Busy { .. }) => Knowledge::Refused,
        Err(error) if error.to_string().contains("nothing was written") => Knowledge::Refused,
        Err(StoreError::Unavailable { .. }) => Knowledge::Unknown,
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn servers_with_faults_keep_every_promise() {
    let number = |name: &str| {
        // Tests have no settings.
        #[expect(clippy::disallowed_methods, reason = "the seed of a failure is an argument")]
        std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap())
    };
    let only = number("REQLORE_SIMULATION_SEED");
    let seconds = number("REQLORE_SIMULATION_SECONDS").map(Duration::from_secs);
    let new = seconds.map(|_| RandomState::new().hash_one(()) >> 32);
    let first = only.or(new).unwrap_or(1);
    let count = if only.is_some() { 1 } else { USUAL_COUNT };
    let (start, mut seed) = (Instant::now(), first);
    while seconds.map_or(seed < first + count, |seconds| start.elapsed() < seconds) {
        let outcome = catch_unwind(|| run_seed(seed));
        assert!(outcome.is_ok(), "run it again with REQLORE_SIMULATION_SEED={seed}");
        seed += 1;
    }
    println!("{} simulations, with the seeds {first} to {}", seed - first, seed - 1);
}

/// Lets the writers end when a check has failed.
struct EndOfTurns(Arc<TurnKeeper>);

impl Drop for EndOfTurns {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Without this, a failure could not be repeated.
#[test]
fn seed_repeats_the_whole_simulation() {
    for seed in 1..20 {
        assert_eq!(run_seed(seed), run_seed(seed), "seed {seed}");
    }
}

/// Runs a seed, and panics if a promise was broken. Returns everything that the clients saw.
fn run_seed(seed: u64) -> String {
    let world = World::new(seed);
    let _end = EndOfTurns(Arc::clone(&world.keeper));
    let mut random = SeededRandom::new(seed ^ 0x5eed);
    let mut starts: Vec<ClientTask> = Vec::new();
    for _ in 0..SERVERS {
        let world = Rc::clone(&world);
        starts.push(Box::pin(async move {
            let server = world.start_server().await;
            world.servers.borrow_mut().push(server);
        }));
    }
    world.keeper.run(&mut random, starts);
    let mut tasks: Vec<ClientTask> = Vec::new();
    for client in 0..CLIENTS {
        tasks.push(Box::pin(run_client(Rc::clone(&world), client)));
    }
    let readers = Rc::new(RefCell::new(Vec::new()));
    for store in world.stores() {
        let (world, readers) = (Rc::clone(&world), Rc::clone(&readers));
        tasks.push(Box::pin(async move {
            let mut reader = ChangeReader::default();
            for _ in 0..6 {
                let limit = world.within(1..4);
                let server = world.server();
                // Another server continues where this one stopped.
                let _ = world.call(&server, reader.follow(&*server.store, limit)).await;
            }
            readers.borrow_mut().push((store, reader));
        }));
    }
    if world.per_mille(400) {
        let world = Rc::clone(&world);
        tasks.push(Box::pin(async move { world.restart_server().await }));
    }
    world.keeper.run(&mut random, tasks);
    world.keeper.end();
    world.faulty.end_faults();
    let readers = readers.take();
    let story = format!("{:?}", world.journal.borrow());
    reqlore_contract::run(simulation_checks::check(&world, readers));
    story
}

/// The number of documents that a client reads in turn.
const READS_IN_TURN: usize = 3;

async fn run_client(world: Rc<World>, client: usize) {
    for number in 0..OPERATIONS {
        let tag = format!("{client}-{number}");
        match world.within(0..20) {
            0..11 => write(&world, tag, client * OPERATIONS + number).await,
            11..16 => read(&world).await,
            16..18 => create_user(&world, tag).await,
            _ => append(&world, tag).await,
        }
    }
}

/// Reads documents one after the other.
async fn read(world: &World) {
    let server = world.server();
    let started = world.time();
    for _ in 0..READS_IN_TURN {
        let (project, id, _) = pick_document(world);
        let ids = [id];
        let found = world.call(&server, server.store.get(&world.projects[project], &ids)).await;
        let [id] = ids;
        let Ok(mut found) = found else { return };
        let version = found.remove(0).map(|document| document.version);
        let ended = world.time();
        let read = ReadRecord { project, id: id.clone(), started, ended, version };
        let mut journal = world.journal.borrow_mut();
        journal.reads.push(read);
        journal.documents.push((project, id, version));
    }
}

/// A document, and a version that some client saw.
fn pick_document(world: &World) -> (usize, DocumentId, Option<Version>) {
    let known = world.journal.borrow().documents.len();
    if known > 0 && world.per_mille(700) {
        // The newest most often.
        let first = known.saturating_sub(8);
        return world.journal.borrow().documents[world.within(first..known)].clone();
    }
    let id = DocumentId::entity(ENTITIES[world.within(0..ENTITIES.len())]);
    (world.within(0..2), id, None)
}

/// The part of a write that concerns one document.
#[derive(Debug, Clone)]
struct Step {
    id: DocumentId,
    /// True if it must have the version `seen`.
    is_checked: bool,
    seen: Option<Version>,
    /// The new text.
    body: Option<String>,
}

fn body_of(world: &World, id: &DocumentId, tag: &str) -> String {
    let choice = world.within(0..12);
    if id.kind == DocumentId::entity("a").kind {
        let tags = ["", "tags: [x]\n", "tags: [x, y]\n"][choice % 3];
        return format!("---\nid: {}\ntitle: {tag}\n{tags}---\n", id.name.replace('/', "-"));
    }
    let status = ["Active", "Obsolete"][choice % 2];
    format!(
        "---\ntitle: T {tag}\nstatus: {status}\npriority: {}\nuser_story: US-00{}\n\
         created_at: 2026-01-0{}\nupdated_at: 2026-01-09\n---\nSee dec-1d2c8f.\n",
        1 + choice % 3,
        1 + choice % 4,
        1 + choice % 5
    )
}

/// A write before it is sent: what the decision does, and under which key.
struct PlannedWrite {
    project: usize,
    steps: Vec<Step>,
    /// The text and the suffix of a new item.
    new_item: Option<(String, String)>,
    key: Option<String>,
    is_audited: bool,
}

fn plan_write(world: &World, tag: &str, number: usize) -> PlannedWrite {
    let (project, id, seen) = pick_document(world);
    let mut steps = Vec::new();
    let creates = world.per_mille(350);
    if !creates || world.per_mille(300) {
        let is_checked = world.per_mille(600);
        let body = world.per_mille(800).then(|| body_of(world, &id, tag));
        steps.push(Step { id, is_checked, seen, body });
    }
    let item = Reference { kind: ItemKind::Requirement, number: 1 }.document_id("", "aaaaaa");
    let new_item = creates.then(|| (body_of(world, &item, tag), format!("{number:06x}")));
    let key = world.per_mille(500).then(|| format!("{number:032x}"));
    PlannedWrite { project, steps, new_item, key, is_audited: world.per_mille(500) }
}

async fn write(world: &World, tag: String, number: usize) {
    let plan = plan_write(world, &tag, number);
    let started = world.time();
    let decisions = Decisions::default();
    let (mut knowledge, mut revision) = (Knowledge::Unknown, None);
    for attempt in 0..6 {
        let server = world.server();
        let commit = request(&plan, &tag, &decisions);
        let call = server.store.commit(&world.projects[plan.project], commit);
        let outcome = world.call(&server, call).await;
        if let Ok(result) = &outcome {
            revision = Some(result.revision);
            let decided = decisions.lock().unwrap();
            let versions: Vec<_> = last(&decided).iter().map(|(_, _, after)| *after).collect();
            assert_eq!(result.versions, versions, "{tag}");
        }
        let now = knowledge_of(&outcome);
        // An error before the decision says nothing about an earlier attempt.
        let is_final = attempt == 0 && now == Knowledge::Refused
            || now == Knowledge::Applied
            || matches!(outcome, Err(StoreError::Decided(_)));
        if is_final {
            knowledge = now;
        }
        if is_final || plan.key.is_none() {
            break;
        }
    }
    let ended = world.time();
    let mut response = None;
    if knowledge == Knowledge::Applied {
        for (id, _, after) in last(&decisions.lock().unwrap()) {
            world.journal.borrow_mut().documents.push((plan.project, id.clone(), *after));
        }
        if let Some(key) = &plan.key {
            let server = world.server();
            let text = format!("\"{tag}\"");
            let saved = server.store.save_answer(key, text.clone());
            response = world.call(&server, saved).await.is_ok().then_some(text);
            let server = world.server();
            let again = request(&plan, &tag, &decisions);
            let call = server.store.commit(&world.projects[plan.project], again);
            match world.call(&server, call).await {
                Err(
                    StoreError::Repeated(_)
                    | StoreError::Unavailable { .. }
                    | StoreError::Busy { .. },
                ) => {}
                other => panic!("{tag} happened again: {other:?}"),
            }
        }
    }
    let decisions = std::mem::take(&mut *decisions.lock().unwrap());
    let PlannedWrite { project, key, is_audited, .. } = plan;
    let record = WriteRecord {
        project,
        started,
        ended,
        knowledge,
        decisions,
        revision,
        is_audited,
        key,
        response,
    };
    world.journal.borrow_mut().writes.insert(tag, record);
}

fn request(plan: &PlannedWrite, tag: &str, decisions: &Decisions) -> CommitRequest {
    let (steps, new_item) = (plan.steps.clone(), plan.new_item.clone());
    let decisions = Arc::clone(decisions);
    let documents = steps.iter().map(|step| step.id.clone()).collect();
    CommitRequest {
        read_set: ReadSet {
            sequences: vec![ItemKind::Requirement],
            ..ReadSet::of_documents(documents)
        },
        decide: Box::new(move |snapshot| decide(snapshot, &steps, new_item.as_ref(), &decisions)),
        context: context(tag, plan.is_audited, plan.key.as_ref()),
    }
}

fn last(decisions: &[Vec<Change>]) -> &[Change] {
    decisions.last().map_or(&[], Vec::as_slice)
}

fn decide(
    snapshot: &Snapshot,
    steps: &[Step],
    new_item: Option<&(String, String)>,
    decisions: &Mutex<Vec<Vec<Change>>>,
) -> Result<Vec<DocumentChange>, Error> {
    let (mut changes, mut decided) = (Vec::new(), Vec::new());
    for (step, found) in steps.iter().zip(&snapshot.documents) {
        let before = found.as_ref().map(|document| document.version);
        let is_outdated = step.is_checked && step.seen != before;
        if is_outdated || (before.is_none() && step.body.is_none()) {
            return Err(Error::new(ErrorKind::Conflict, "another version"));
        }
        let change = match &step.body {
            Some(body) => DocumentChange::put(step.id.clone(), body.clone()),
            None => DocumentChange::Delete { id: step.id.clone() },
        };
        decided.push((step.id.clone(), before, change.version()));
        changes.push(change);
    }
    if let Some((body, mark)) = new_item {
        let number = snapshot.next_numbers[0];
        let id = Reference { kind: ItemKind::Requirement, number }.document_id("", mark);
        let change = DocumentChange::put(id.clone(), body.clone());
        decided.push((id, None, change.version()));
        changes.push(change);
    }
    decisions.lock().unwrap().push(decided);
    Ok(changes)
}

fn context(tag: &str, is_audited: bool, key: Option<&String>) -> WriteContext {
    let at = test_context().at;
    let request_hash = tag.to_owned();
    WriteContext {
        reason: tag.to_owned(),
        correlation_id: tag.to_owned(),
        audited: is_audited.then(|| AuditScope::begin(Arc::new(at))),
        idempotency_key: key.map(|key| IdempotencyKey { key: key.clone(), request_hash }),
        ..test_context()
    }
}

/// The time that marks the user of this tag.
pub(crate) fn time_of(tag: &str) -> Timestamp {
    let (client, number) = tag.split_once('-').unwrap();
    Timestamp::new(client.parse::<i64>().unwrap() * 1000 + number.parse::<i64>().unwrap(), 0)
}

async fn create_user(world: &World, tag: String) {
    let name = UserName::parse(USERS[world.within(0..USERS.len())]).unwrap();
    let server = world.server();
    let epoch = world.call(&server, server.store.identity_epoch()).await;
    let user = User {
        name: name.clone(),
        role: UserRole::User,
        created_at: time_of(&tag),
        disabled_at: None,
    };
    let commit = IdentityCommit {
        users: vec![name.clone()],
        tokens: Vec::new(),
        decide: Box::new(move |users, _| match &users[0] {
            Some(_) => Err(Error::new(ErrorKind::Conflict, "the user exists")),
            None => Ok(vec![IdentityChange::User(user.clone())]),
        }),
        context: context(&tag, true, None),
    };
    let server = world.server();
    let outcome = world.call(&server, server.store.commit_identities(commit)).await;
    let knowledge = knowledge_of(&outcome);
    let server = world.server();
    if let (Ok(before), Knowledge::Applied) = (epoch, knowledge)
        && let Ok(after) = world.call(&server, server.store.identity_epoch()).await
    {
        assert_ne!(before, after, "the epoch of {tag}");
    }
    world.journal.borrow_mut().users.insert(tag, (name, knowledge));
}

async fn append(world: &World, tag: String) {
    let event = AuditEvent { correlation_id: tag.clone(), ..audit_event("append", 7) };
    let server = world.server();
    let outcome = world.call(&server, server.store.append_events(vec![event])).await;
    world.journal.borrow_mut().events.insert(tag, knowledge_of(&outcome));
}
