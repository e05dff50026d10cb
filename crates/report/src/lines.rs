//! What is said about an incident: one line, with what it is about, what happened, and what to do.

use std::fmt;

use ibv_sa_ledger::{AckMode, ContextName, Fault, Kind, ObjectName, event_name};

/// A thread for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// Thread id.
    pub tid: u32,
    /// Its name, if it is known.
    pub name: Option<String>,
    /// It exists no more.
    pub ended: bool,
}

impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.tid)?;
        match (&self.name, self.ended) {
            (Some(name), false) => write!(f, " ({name})"),
            (Some(name), true) => write!(f, " ({name}, ended)"),
            (None, false) => Ok(()),
            (None, true) => write!(f, " (ended)"),
        }
    }
}

/// Nanoseconds, told as seconds and tenths. Whole numbers: code that prints others is large.
pub struct Age(pub u64);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0 / 100_000_000;
        write!(f, "{}.{} s", tenths / 10, tenths % 10)
    }
}

/// Someone's event, and how long ago it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenBy {
    /// `enum ibv_event_type`.
    pub event_type: u32,
    /// Who took it; `None` if there was no room to note it.
    pub by: Option<Person>,
    /// Nanoseconds since.
    pub age: u64,
}

impl fmt::Display for TakenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = event_name(self.event_type);
        match &self.by {
            Some(by) => write!(f, "{name}, taken by {by} {} ago", Age(self.age)),
            None => write!(f, "an event of which nothing more is known"),
        }
    }
}

/// Completion events that are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionsTaken {
    /// How many.
    pub number: u64,
    /// Who took the first of them, and how long ago in nanoseconds.
    pub first: (Person, u64),
    /// Who took the last of them, and how long ago.
    pub last: (Person, u64),
}

impl fmt::Display for CompletionsTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (&self.first, &self.last);
        match self.number {
            // Acks close the oldest first, as far as anybody can tell: what is left was taken last.
            1 => write!(f, "1 completion event, taken by {} {} ago, is", last.0, Age(last.1)),
            n => write!(
                f,
                "{n} completion events, the first taken by {} {} ago, the last {} ago, are",
                first.0,
                Age(first.1),
                Age(last.1)
            ),
        }
    }
}

/// As `rdma resource` and the program itself name it.
pub fn object(name: &ObjectName) -> String {
    let device = name.context.device.as_deref().map_or("unknown device".into(), crate::printable);
    let kind = kind(name.kind);
    match (name.kind, name.ident) {
        (_, None) => format!("{kind} ({device})"),
        (Kind::Qp, Some(ident)) => {
            format!("{kind} qp_num {} (handle {}, {device})", ident.number, ident.handle)
        }
        (Kind::Wq, Some(ident)) => {
            format!("{kind} wq_num {} (handle {}, {device})", ident.number, ident.handle)
        }
        (Kind::CompChannel, Some(ident)) => format!("{kind} fd {} ({device})", ident.number),
        (_, Some(ident)) => format!("{kind} handle {} ({device})", ident.handle),
    }
}

/// A kind of object in the field's own words.
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Qp => "QP",
        Kind::Cq => "CQ",
        Kind::Srq => "SRQ",
        Kind::Wq => "WQ",
        Kind::CompChannel => "completion channel",
    }
}

/// The call that destroys an object.
pub fn destroy_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Qp => "ibv_destroy_qp",
        Kind::Cq => "ibv_destroy_cq",
        Kind::Srq => "ibv_destroy_srq",
        Kind::Wq => "ibv_destroy_wq",
        Kind::CompChannel => "ibv_destroy_comp_channel",
    }
}

fn context(name: &ContextName) -> String {
    let device = name.device.as_deref().map_or("unknown device".into(), crate::printable);
    format!("{device} (context {})", name.id)
}

/// "1 completion event", "2 completion events".
fn completions(number: u64) -> String {
    format!("{number} completion event{}", if number == 1 { "" } else { "s" })
}

/// An ack that was bad. `event_type` is `None` for completion events.
pub fn bad_ack(
    name: &ObjectName,
    by: &Person,
    event_type: Option<u32>,
    fault: Fault,
    held: u32,
    mode: AckMode,
) -> String {
    let function = match event_type {
        Some(_) => "ibv_ack_async_event",
        None => "ibv_ack_cq_events",
    };
    let kind = kind(name.kind);
    let given = match (event_type, fault) {
        (Some(event_type), _) => event_name(event_type),
        (None, Fault::NotOpen { given, .. }) => completions(given.into()),
        (None, Fault::Destroyed { given }) => completions(given.into()),
        (None, Fault::OtherKind { given }) => completions(given.into()),
    };
    let (what, remedy) = match fault {
        Fault::NotOpen { good: 0, got, acked, .. } if event_type.is_some() => (
            format!("but no event of this {kind} is open (got {got}, acknowledged {acked})"),
            "ack each event once",
        ),
        Fault::NotOpen { good, got, acked, .. } => {
            let open = match good {
                0 => "none is open".into(),
                1 => "1 is open".into(),
                n => format!("{n} are open"),
            };
            (format!("but {open} (got {got}, acknowledged {acked})"), "ack each event once, on its own CQ")
        }
        Fault::Destroyed { .. } => {
            (format!("but the {kind} was destroyed before"), "ack each event before its object is destroyed")
        }
        Fault::OtherKind { .. } => {
            (format!("which is no event of a {kind}"), "ack the event as ibv_get_async_event filled it in")
        }
    };
    let fate = match (mode, fault, held) {
        (AckMode::Abort, ..) => "aborting, as IBV_SA_ACK=abort asks".into(),
        (AckMode::Forward, Fault::NotOpen { .. }, _) => "forwarded, so the destroy will wait for ever".into(),
        (AckMode::Forward, ..) => "forwarded".into(),
        (_, _, 0 | 1) => "the ack is held back".to_string(),
        (_, _, n) => format!("{n} acks are held back"),
    };
    format!("{function}: {}: {by} acknowledged {given}, {what}; {fate}: {remedy}", object(name))
}

/// The thread that destroys an object took events itself and did not acknowledge them.
pub fn self_deadlock(
    name: &ObjectName,
    by: &Person,
    event: Option<&TakenBy>,
    completions_taken: Option<(u64, u64)>,
) -> String {
    let (what, age, number, ack) = match (event, completions_taken) {
        (Some(event), _) => (event_name(event.event_type), event.age, 1, "ibv_ack_async_event"),
        (None, Some((number, age))) => (completions(number), age, number, "ibv_ack_cq_events"),
        (None, None) => ("an event".into(), 0, 1, "ibv_ack_async_event"),
    };
    format!(
        "{}: {}: {by} took {what} itself {} ago and did not acknowledge {}: unless another thread does, this destroy \
         never returns; call {ack} first",
        destroy_of(name.kind),
        object(name),
        Age(age),
        if number == 1 { "it" } else { "them" },
    )
}

/// Events that are listed one by one.
pub const LISTED: usize = 4;

/// An SA event, who took it, and how long ago.
pub struct SaTaken {
    /// What it says.
    pub what: String,
    /// Who took it.
    pub by: Person,
    /// Nanoseconds since.
    pub age: u64,
}

/// A call waits for acks of SA events: all `number` of them, of which the first are `listed`.
pub fn sa_waits(
    call: &str,
    what: &str,
    by: &Person,
    waited: u64,
    listed: &[SaTaken],
    number: usize,
) -> String {
    let mut list: Vec<String> = listed
        .iter()
        .map(|SaTaken { what, by, age }| {
            format!("{what}, taken by {by} {} ago, is not acknowledged", Age(*age))
        })
        .collect();
    if number > listed.len() {
        list.push(format!("and {} more", number - listed.len()));
    }
    format!(
        "{call}: {what}: {by} has waited for {}: {}; call ibv_sa_ack_event for each event that was got",
        Age(waited),
        list.join("; ")
    )
}

/// A call is about to wait for the acks of SA events that its own thread took.
pub fn sa_self_deadlock(call: &str, what: &str, by: &Person, own: &SaTaken) -> String {
    format!(
        "{call}: {what}: {by} took {} itself {} ago and did not acknowledge it: unless another thread does, this \
         call never returns; call ibv_sa_ack_event first",
        own.what,
        Age(own.age),
    )
}

/// A destroy waits for acks; with `waited` 0 it is about to.
pub fn waits(
    name: &ObjectName,
    by: &Person,
    waited: u64,
    events: &[TakenBy],
    completions: Option<&CompletionsTaken>,
) -> String {
    let mut parts: Vec<String> = Vec::new();
    if !events.is_empty() {
        let mut list: Vec<String> =
            events.iter().take(LISTED).map(|event| format!("{event}, is not acknowledged")).collect();
        if events.len() > LISTED {
            list.push(format!("and {} more", events.len() - LISTED));
        }
        parts.push(format!("{}; call ibv_ack_async_event for each event that was got", list.join("; ")));
    }
    if let Some(completions) = completions {
        parts.push(format!("{completions} not acknowledged; call ibv_ack_cq_events"));
    }
    let waiting = match waited {
        0 => "is going to wait".into(),
        _ => format!("has waited for {}", Age(waited)),
    };
    format!("{}: {}: {by} {waiting}: {}", destroy_of(name.kind), object(name), parts.join("; "))
}

/// A destroy waits though nothing is open: a held ack goes to libibverbs.
pub fn released(name: &ObjectName, by: &Person, waited: u64) -> String {
    format!(
        "{}: {}: {by} has waited for {} though every event that was got is acknowledged: one was read around this \
         library; a held ack goes to libibverbs",
        destroy_of(name.kind),
        object(name),
        Age(waited),
    )
}

/// Events were acknowledged for the program: those of which something is known, the number of others, and completions.
pub fn rescued(
    name: &ObjectName,
    events: &[TakenBy],
    unlisted: u32,
    completions: Option<&CompletionsTaken>,
) -> String {
    let mut parts: Vec<String> = events.iter().take(LISTED).map(|event| event.to_string()).collect();
    let more = events.len().saturating_sub(LISTED) as u64 + u64::from(unlisted);
    match (more, parts.is_empty()) {
        (0, _) => {}
        (_, true) => parts.push(format!("{more} events of which nothing more is known")),
        (_, false) => parts.push(format!("and {more} more")),
    }
    let mut said = Vec::new();
    if !parts.is_empty() {
        let one = events.len() as u64 + u64::from(unlisted) == 1;
        said.push(format!("{}, {} acknowledged", parts.join("; "), if one { "is" } else { "are" }));
    }
    said.extend(completions.map(|completions| format!("{completions} acknowledged")));
    format!(
        "{}: {}: {} for the program (IBV_SA_ACK=rescue)",
        destroy_of(name.kind),
        object(name),
        said.join("; "),
    )
}

/// A destroy was refused.
pub fn refused(name: &ObjectName) -> String {
    let users = match name.kind {
        Kind::Qp => "multicast groups or flows still use it; detach and destroy those first",
        Kind::Cq => "QPs or WQs still use it; destroy those first",
        Kind::Srq => "QPs still use it; destroy those first",
        Kind::Wq => "an indirection table still uses it; destroy that first",
        Kind::CompChannel => "CQs still use it; destroy those first",
    };
    format!("{}: {}: refused with EBUSY, not waiting: {users}", destroy_of(name.kind), object(name))
}

/// The first sign that a device has failed or is gone.
pub fn device_gone(name: &ContextName, sign: &str) -> String {
    format!("{}: the device has failed or is gone: {sign}", context(name))
}

/// Two threads read one context's events.
pub fn two_readers(name: &ContextName, one: &Person, other: &Person, event: &str) -> String {
    format!(
        "{}: async events are read by two threads, {} and {}: each takes events from the other; this one was {event}",
        context(name),
        without_word(one),
        without_word(other),
    )
}

fn without_word(person: &Person) -> String {
    person.to_string().replacen("thread ", "", 1)
}

/// A reader leaves events queued.
pub fn backlog(name: &ContextName, age: u64) -> String {
    format!(
        "{}: async events have been queued for {}: the last ibv_get_async_event did not reach EAGAIN and none \
         followed; an edge-triggered reader reads until EAGAIN",
        context(name),
        Age(age)
    )
}
