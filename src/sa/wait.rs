//! A free or a destroy that waits for acks, and what is said about it.

use std::sync::atomic::AtomicU32;

use ibv_sa_report::lines::{self, SaTaken};

use core::ffi::c_long;

use crate::abi::c_int;
use crate::boundary::set_errno;
use crate::sa::connection::say;
use crate::sa::event::Event;
use crate::sa::process::Tables;
use crate::{clock, tell, watch};

unsafe extern "C-unwind" {
    /// A thread with asynchronous cancellation may be cancelled in the wait (pthread_setcanceltype(3)).
    fn syscall(number: c_long, ...) -> c_long;
}

/// Bounds the time that one wait takes; it only looks whether there is something to say.
const LONGEST: u64 = 3600 * 1_000_000_000;

/// What a call does next: wait, or return.
#[repr(C)]
pub(crate) struct Step {
    word: *const AtomicU32,
    seen: u32,
    nanoseconds: u64,
    errno: c_int,
}

impl Step {
    pub(crate) const DONE: Step = Step { word: std::ptr::null(), seen: 0, nanoseconds: 0, errno: 0 };

    pub(crate) fn failed(errno: c_int) -> Self {
        Self { errno, ..Self::DONE }
    }

    pub(crate) fn on(word: &AtomicU32, seen: u32, until: u64) -> Self {
        let nanoseconds = until.saturating_sub(clock::now()).clamp(1_000_000, LONGEST);
        Self { word, seen, nanoseconds, errno: 0 }
    }

    /// Waits, if that is what comes next. False: the call returns.
    ///
    /// # Safety
    /// The word, if there is one, is mapped.
    #[inline]
    pub(crate) unsafe fn wait(&self) -> bool {
        if self.word.is_null() {
            return false;
        }
        let time = libc::timespec {
            tv_sec: (self.nanoseconds / 1_000_000_000) as libc::time_t,
            tv_nsec: (self.nanoseconds % 1_000_000_000) as c_long,
        };
        // SAFETY: word and time are valid for the call (futex(2)). Nothing of ours is held.
        unsafe {
            syscall(
                libc::SYS_futex,
                self.word,
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                self.seen,
                &raw const time,
            )
        };
        true
    }

    /// 0, or -1 with errno.
    pub(crate) fn result(&self) -> c_int {
        if self.errno == 0 {
            return 0;
        }
        set_errno(self.errno);
        -1
    }
}

/// Wakes all who wait on a word.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the word is valid for the call (futex(2)).
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, c_int::MAX)
    };
}

/// Events that were got and are not acknowledged.
pub(crate) struct Open {
    listed: Vec<SaTaken>,
    number: usize,
}

impl Open {
    /// Those that `which` names.
    #[inline(never)]
    pub(crate) fn of(tables: &Tables, which: &dyn Fn(&Event) -> bool) -> Self {
        let mut open = Open { listed: Vec::new(), number: 0 };
        let now = clock::now();
        tables.events.each(|event| {
            if !event.got || !which(event) {
                return;
            }
            open.number += 1;
            if open.listed.len() < lines::LISTED {
                let (by, age) = (tell::person(&event.by), now.saturating_sub(event.at));
                open.listed.push(SaTaken { what: event.text().into(), by, age });
            }
        });
        open
    }

    fn own(&self, tid: u32) -> Option<&SaTaken> {
        self.listed.iter().find(|taken| taken.by.tid == tid)
    }
}

/// One call's waits.
#[repr(C)]
pub(crate) struct Waits {
    began: u64,
    /// When the next line is due; 0: this call has not waited.
    due: u64,
    for_readers: u32,
}

impl Waits {
    pub(crate) const fn begin() -> Self {
        Self { began: 0, due: 0, for_readers: 0 }
    }

    /// Waits until the word changes, and says what it waits for when it takes long.
    #[inline(never)]
    pub(crate) fn on(&mut self, word: &AtomicU32, seen: u32, call: &str, what: &str, open: &Open) -> Step {
        let now = clock::now();
        let me = clock::me();
        if self.due == 0 {
            (self.began, self.due) = (now, now + watch::patience());
            if let Some(own) = open.own(me.tid) {
                say(&lines::sa_self_deadlock(call, what, &tell::person(&me), own));
            }
        } else if now >= self.due {
            let waited = now - self.began;
            say(&lines::sa_waits(call, what, &tell::person(&me), waited, &open.listed, open.number));
            self.due = self.began + 2 * waited;
        }
        Step::on(word, seen, self.due)
    }

    /// Whether to wait once more until those who were in a get have left it: they have been woken.
    pub(crate) fn for_readers(&mut self) -> bool {
        self.for_readers += 1;
        self.for_readers <= 5
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    #[test]
    fn a_wait_ends_with_its_time() {
        let word = AtomicU32::new(7);
        let step = Step::on(&word, 7, 0);
        // SAFETY: the word lives.
        assert!(unsafe { step.wait() });
        assert_eq!(word.load(SeqCst), 7);
        // SAFETY: no word.
        assert!(!unsafe { Step::DONE.wait() });
        assert_eq!(Step::failed(libc::EINVAL).result(), -1);
    }
}
