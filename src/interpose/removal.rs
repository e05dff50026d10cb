//! Signs that a device has failed or was removed. All signs of one context are one incident.

use ibv_sa_ledger::{Ledger, Sign, What};
use ibv_sa_report::lines::{self, Age};

use crate::interpose::backlog;
use crate::{clock, tell as telling};

/// Notes a sign and tells of it if it is the first of its kind. `sign_of` ends where the thread is named.
#[cold]
pub(crate) fn sign(ledger: &Ledger, context: usize, sign: Sign, sign_of: &str) {
    if ledger.removal_sign(context, sign) {
        tell(ledger, context, sign_of);
    }
}

/// A command failed with EIO. Devices that are there fail so too; the kernel says which it is.
#[cold]
pub(crate) fn command_failed(ledger: &Ledger, context: usize, fd: i32, function: &str) {
    sign(ledger, context, Sign::CommandFailed, &format!("{function} failed with EIO in"));
    if backlog::has_error(fd) {
        // The same news once more, from another witness: it is not told again.
        ledger.removal_sign(context, Sign::PollError);
    }
}

/// Tells of a sign that was noted.
#[cold]
pub(crate) fn tell(ledger: &Ledger, context: usize, sign_of: &str) {
    let me = clock::me();
    let sign_of = format!("{sign_of} {}", telling::person(&me));
    let first = || {
        let name = ledger.context_name(context);
        let text = lines::device_gone(&name, &sign_of);
        telling::incident(ledger, What::DeviceGone, name.id, me.tid, &text)
    };
    if let Some(place) = ledger.removal_told(context, first) {
        let at = clock::now().saturating_sub(ledger.began());
        ledger.amend(place, &format!("; at {} {sign_of}", Age(at)));
    }
}
