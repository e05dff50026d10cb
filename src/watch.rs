//! The thread that looks after destroys that wait for acks.
//!
//! It is born when the first such destroy begins and gone when the last one has returned. It has all signals blocked, so
//! that none of the program's is ever handled in it. Its state is one word: 0 without a thread; otherwise odd, and changed
//! by each knock, so that a knock while it is about to sleep or to leave is never missed. The word lies where fork wipes
//! it: a child has no such thread.

use std::sync::atomic::{AtomicU32, Ordering::*};

use ibv_sa_ledger::{AckMode, Handed, Kind, Ledger, OpenNow, Thread, Token, Wait, What};
use ibv_sa_report::lines;

use crate::boundary::{contain, faulted, uncancelled};
use crate::interpose::destroy::{
    completions_taken, say_rescued, self_deadlock, size_of_kind, taken_by, waiting,
};
use crate::interpose::hand_over::hand_over;
use crate::{clock, settings, state, tell};

const RUNNING: u32 = 1;
const KNOCK: u32 = 2;

/// Between two looks that must find the same, and between held acks where a thread's sleep cannot be seen.
const LOOK_TWICE: u64 = 100_000_000;
/// Held acks that go on in one look, while other destroys wait to be looked at.
const AT_ONCE: u32 = 1000;
/// Until a thread is looked at again that was not found waiting.
const LOOK_AGAIN: u64 = 500_000_000;

/// How long a destroy waits before it is spoken of, in nanoseconds.
pub(crate) fn patience() -> u64 {
    u64::from(settings::get().hang_secs) * 1_000_000_000
}

/// Looks after the destroy of an object from `first_look` on. False if nobody can.
pub(crate) fn look_after(ledger: &'static Ledger, token: Token, by: Thread, first_look: u64) -> bool {
    ledger.look_after(token, by, first_look) && knock_or_start()
}

/// Looks after the destroy of an object that another thread is in.
#[cold]
pub(crate) fn look_after_destroyer(ledger: &'static Ledger, token: Token) {
    if let Some((tid, since)) = ledger.destroyer(token) {
        let by = Thread { tid, ..Default::default() };
        look_after(ledger, token, by, since + patience());
    }
}

/// A destroy that was looked after has returned.
pub(crate) fn wake() {
    if let Some(word) = state::watch() {
        let running = word.fetch_update(SeqCst, SeqCst, |seen| (seen != 0).then(|| seen.wrapping_add(KNOCK)));
        if running.is_ok() {
            futex(word, libc::FUTEX_WAKE, 1, None);
        }
    }
}

fn knock_or_start() -> bool {
    let Some(word) = state::watch() else { return false };
    match word.compare_exchange(0, RUNNING, SeqCst, SeqCst) {
        Ok(_) => {
            let started = uncancelled(start);
            if !started {
                word.store(0, SeqCst);
            }
            started
        }
        Err(_) => {
            wake();
            // It may have left in this moment.
            word.load(SeqCst) != 0 || knock_or_start()
        }
    }
}

/// Starts the thread with all signals blocked; what it runs on is small.
fn start() -> bool {
    // SAFETY: the attributes are initialised before use and destroyed after; the mask is restored to what it was; the
    // thread's function is one of a library that is never unloaded (-z nodelete).
    unsafe {
        let mut attributes = std::mem::zeroed();
        if libc::pthread_attr_init(&mut attributes) != 0 {
            return false;
        }
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut usual = 0;
        libc::pthread_attr_getstacksize(&attributes, &mut usual);
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        let mut old = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        let mut thread = 0;
        // Without the priority of a thread that must not be disturbed, and small; but a sandbox may forbid the one, and
        // the program's own thread-local variables, which are taken from the stack, may be larger than the other.
        let ways = [(libc::PTHREAD_EXPLICIT_SCHED, 256 << 10), (libc::PTHREAD_INHERIT_SCHED, usual)];
        let started = ways.into_iter().any(|(scheduling, stack)| {
            libc::pthread_attr_setinheritsched(&mut attributes, scheduling);
            libc::pthread_attr_setstacksize(&mut attributes, stack);
            libc::pthread_create(&mut thread, &attributes, run, std::ptr::null_mut()) == 0
        });
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
        libc::pthread_attr_destroy(&mut attributes);
        started
    }
}

extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: a C string of less than 16 bytes (prctl(2)).
    unsafe { libc::prctl(libc::PR_SET_NAME, c"ibv_sa".as_ptr()) };
    if let (Some(word), Some(ledger)) = (state::watch(), state::existing()) {
        loop {
            let seen = word.load(SeqCst);
            let next = if faulted() { None } else { contain(None, || round(ledger)) };
            match next {
                Some(next) => {
                    futex(word, libc::FUTEX_WAIT, seen, Some(next.saturating_sub(clock::now())));
                }
                None if word.compare_exchange(seen, 0, SeqCst, SeqCst).is_ok() => break,
                None => {}
            }
        }
    }
    std::ptr::null_mut()
}

/// futex(2); `value` is what is compared or how many are woken.
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32, nanoseconds: Option<u64>) {
    let time = nanoseconds.map(|nanoseconds| libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        // Never quite no time at all: that would be a busy loop until the coarse clock moves on.
        tv_nsec: ((nanoseconds % 1_000_000_000).max(1_000_000)) as libc::c_long,
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time are valid for the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation | libc::FUTEX_PRIVATE_FLAG, value, time)
    };
}

/// Looks at all destroys whose time has come. Returns when to look next, `None` if there are none.
fn round(ledger: &'static Ledger) -> Option<u64> {
    let now = clock::now();
    for wait in ledger.waits() {
        if now >= wait.next_at {
            look_at(ledger, &wait, now);
        }
    }
    ledger.waits().map(|wait| wait.next_at).min()
}

fn look_at(ledger: &'static Ledger, wait: &Wait, now: u64) {
    let Some((kind, address)) = ledger.address_of(wait.token) else {
        return ledger.looked_after(wait);
    };
    if ledger.destroyer(wait.token).is_none_or(|(tid, _)| tid != wait.by.tid) {
        return ledger.looked_after(wait);
    }
    let waited = now.saturating_sub(wait.since);
    let switches = match place_of(wait, address, size_of_kind(kind)) {
        Where::Ended => return ledger.destroy_left(wait),
        // In the kernel, in a signal handler, or back already.
        Where::Elsewhere => {
            let next_at = now + waited.clamp(LOOK_TWICE, LOOK_AGAIN);
            let switches = switches(wait.by.tid).unwrap_or_default();
            return ledger.looked_at(&Wait { next_at, idle: 0, switches, ..*wait });
        }
        Where::Waiting => switches(wait.by.tid).unwrap_or_default(),
        Where::Unknown => 0,
    };
    let wait = &Wait { switches, ..*wait };
    let rescues = settings::get().ack == AckMode::Rescue;
    if waited < patience() || (wait.told == 0 && !rescues) {
        let next_at = wait.since + patience().max(2 * waited);
        if say_self_deadlock(ledger, &Wait { next_at, ..*wait }, now) || waited < patience() {
            return;
        }
    }
    let mut seen = Wait { next_at: wait.since + 2 * waited.max(patience()), idle: 0, ..*wait };
    let mut handed = ledger.pair(wait.token);
    let Some(open) = ledger.open_now(wait.token) else { return };
    if open.events != 0 || open.completions != 0 {
        if rescues {
            add(&mut handed, rescue(ledger, wait, &open, now));
            seen.next_at = now + LOOK_TWICE;
        } else if let Some(text) = waiting(ledger, wait.token, &wait.by, waited, &open, now) {
            let context = ledger.object_name(wait.token).map_or(0, |name| name.context.id);
            // The first time it is an incident; later it is the same one still.
            if wait.told == 0 {
                tell::incident(ledger, What::DestroyWaits, context, wait.by.tid, &text);
            } else {
                tell::line(ledger, &text);
            }
            seen.told += 1;
        }
    } else if open.held != 0 {
        // An ack that our books have counted may be on its way still: only what does not change is a wait for nothing.
        seen.idle = wait.idle + 1;
        seen.next_at = now + LOOK_TWICE;
        if wait.idle != 0 && wait.switches != 0 {
            release(ledger, &mut seen, (kind, address), now);
        }
    }
    ledger.looked_at(&seen);
    if handed != Handed::default() {
        // SAFETY: the destroying thread was found waiting in this object, or is by all that we know; each of these
        // acks is one that it waits for, so that it cannot go on before libibverbs has counted them.
        unsafe { hand_over(kind, std::ptr::with_exposed_provenance_mut(address), handed) };
    }
}

/// Speaks of a thread that took the events itself and waits for their acks, if it is one; it is looked at again when
/// `seen` says.
fn say_self_deadlock(ledger: &Ledger, seen: &Wait, now: u64) -> bool {
    let open = ledger.open_now(seen.token);
    let text = open.and_then(|open| self_deadlock(ledger, seen.token, &seen.by, &open, now));
    if let Some(text) = &text {
        let context = ledger.object_name(seen.token).map_or(0, |name| name.context.id);
        tell::incident(ledger, What::DestroyWaits, context, seen.by.tid, text);
    }
    ledger.looked_at(&Wait { told: seen.told + u32::from(text.is_some()), ..*seen });
    text.is_some()
}

fn add(handed: &mut Handed, more: Handed) {
    handed.events += more.events;
    handed.completions += more.completions;
}

/// Held acks of an object none of whose events is open, one at a time until the destroy returns.
fn release(ledger: &Ledger, seen: &mut Wait, (kind, address): (Kind, usize), now: u64) {
    let tid = seen.by.tid;
    for number in 0..AT_ONCE {
        let before = switches(tid);
        // Only one that surely waits gets more than one in a row.
        if number != 0 && syscall_of(tid, address, size_of_kind(kind)) != Some(Where::Waiting) {
            break;
        }
        let released = ledger.release_one(seen.token);
        if released == Handed::default() {
            break;
        }
        if seen.told == 0
            && let Some(name) = ledger.object_name(seen.token)
        {
            let text = lines::released(&name, &tell::person(&seen.by), now.saturating_sub(seen.since));
            tell::incident(ledger, What::AcksReleased, name.context.id, tid, &text);
        }
        seen.told += 1;
        // SAFETY: the destroying thread waits in this object, or does by all that we know, and every ack that it could
        // get from elsewhere is held: it cannot go on before libibverbs has counted this one.
        unsafe { hand_over(kind, std::ptr::with_exposed_provenance_mut(address), released) };
        // It wakes, looks, and sleeps again if that was not enough.
        if !wait_for_switch(tid, before) {
            break;
        }
        seen.next_at = now;
    }
}

/// Until the thread has slept again, or has gone on. False if that cannot be told, or takes long.
fn wait_for_switch(tid: u32, before: Option<u64>) -> bool {
    if before.is_none() {
        return false;
    }
    for _ in 0..100 {
        if switches(tid) != before {
            return true;
        }
        // SAFETY: sleeping has no preconditions; this thread is ours, and nobody cancels it.
        unsafe { libc::usleep(200) };
    }
    false
}

fn rescue(ledger: &Ledger, wait: &Wait, open: &OpenNow, now: u64) -> Handed {
    let mut events = Vec::new();
    while let Some(taken) = ledger.rescue_event(wait.token, None) {
        events.push(taken_by(&taken, now));
    }
    let unlisted = ledger.rescue_unlisted(wait.token);
    let completions = ledger.rescue_completions(wait.token);
    let taken = (completions != 0).then(|| completions_taken(open, now));
    say_rescued(ledger, wait.token, wait.by.tid, &events, unlisted, taken);
    Handed { events: events.len() as u32 + unlisted, completions }
}

/// Where a thread is that called a destroy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// Waiting for acks, in the object itself.
    Waiting,
    /// Anywhere else.
    Elsewhere,
    /// It exists no more.
    Ended,
    /// There is no /proc: what it waits for can be told, but no held ack may go on.
    Unknown,
}

fn place_of(wait: &Wait, object: usize, size: usize) -> Where {
    if tell::has_ended(wait.by.tid) {
        return Where::Ended;
    }
    syscall_of(wait.by.tid, object, size).unwrap_or_else(|| sleeps_since(wait))
}

/// Asks the kernel (proc(5), /proc/PID/task/TID/syscall): libibverbs waits on a condition variable in the object. `None`
/// where that cannot be read: without /proc, and in a program that has given up its rights.
fn syscall_of(tid: u32, object: usize, size: usize) -> Option<Where> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).ok()?;
    Some(is_waiting(&text, object, size))
}

/// The next best: it sleeps, and has not been awake since it was looked at before.
fn sleeps_since(wait: &Wait) -> Where {
    let Some(state) = status(wait.by.tid, "State:") else { return Where::Unknown };
    if state.starts_with('S') && wait.switches != 0 && switches(wait.by.tid) == Some(wait.switches) {
        Where::Waiting
    } else {
        Where::Elsewhere
    }
}

/// A line of /proc/PID/task/TID/status (proc(5)).
fn status(tid: u32, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

/// How often a thread has gone to sleep.
fn switches(tid: u32) -> Option<u64> {
    status(tid, "voluntary_ctxt_switches:")?.parse().ok()
}

fn is_waiting(text: &str, object: usize, size: usize) -> Where {
    let mut words = text.split_ascii_whitespace();
    let call = words.next().and_then(|word| word.parse::<libc::c_long>().ok());
    let argument = words
        .next()
        .and_then(|word| word.strip_prefix("0x"))
        .and_then(|word| usize::from_str_radix(word, 16).ok());
    match (call, argument) {
        (Some(libc::SYS_futex), Some(address)) if (object..object + size).contains(&address) => {
            Where::Waiting
        }
        _ => Where::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_in_the_object_is_told_from_all_else() {
        let waiting = format!("{} 0x1060 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f1d\n", libc::SYS_futex);
        assert_eq!(is_waiting(&waiting, 0x1000, 160), Where::Waiting);
        assert_eq!(is_waiting(&waiting, 0x2000, 160), Where::Elsewhere);
        assert_eq!(is_waiting("running\n", 0x1000, 160), Where::Elsewhere);
        assert_eq!(is_waiting("16 0x1060 0x0\n", 0x1000, 160), Where::Elsewhere);
        assert_eq!(is_waiting("", 0x1000, 160), Where::Elsewhere);
    }

    #[test]
    fn a_thread_that_waits_is_found() {
        let object = Box::new(AtomicU32::new(0));
        let address = object.as_ptr().addr();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                send.send(clock::tid()).unwrap();
                while object.load(SeqCst) == 0 {
                    futex(&object, libc::FUTEX_WAIT, 0, None);
                }
            });
            let tid = receive.recv().unwrap();
            while syscall_of(tid, address, 4) != Some(Where::Waiting) {
                std::thread::yield_now();
            }
            assert_eq!(syscall_of(clock::tid(), address, 4), Some(Where::Elsewhere));
            // Where the system call cannot be read, two looks have to find it asleep.
            let by = Thread { tid, ..Default::default() };
            let mut wait = Wait { by, ..Default::default() };
            assert_eq!(sleeps_since(&wait), Where::Elsewhere);
            wait.switches = switches(tid).unwrap();
            assert_eq!(sleeps_since(&wait), Where::Waiting);
            object.store(1, SeqCst);
            futex(&object, libc::FUTEX_WAKE, 1, None);
        });
    }
}
