//! Programs that arm a CQ and wait in a way that misses completions; looked for where all completions are counted.

use core::fmt::Write;

use ibv_sa_ledger::{Lint, What};
use ibv_sa_report::{lines, lint};

use crate::abi::*;
use crate::boundary::{bookkeeping, uncancelled};
use crate::interpose::backlog;
use crate::settings::{self, CqMode};
use crate::{clock, tell};

/// A program calls `ibv_get_cq_event` from `site`. Where an event is there it does not wait.
///
/// # Safety
/// `channel` is live.
#[inline(never)]
pub(super) unsafe extern "C" fn before_wait(channel: *mut ibv_comp_channel, site: usize) {
    if settings::get().cq != CqMode::Full {
        return;
    }
    bookkeeping(|ledger| {
        let Some((found, cq)) = ledger.waits_badly(channel.addr()) else { return };
        // SAFETY: live, as the caller promises.
        if backlog::has_event(unsafe { (*channel).fd }) || !ledger.is_first_at(site, found) {
            return;
        }
        let Some(line) = ledger.cq_line_of(cq) else { return };
        let what = match found {
            Lint::ArmedWithoutPoll => What::ArmedWithoutPoll,
            Lint::FullPoll => What::FullPoll,
        };
        let by = tell::person(&clock::me());
        let text = lint::waits(&lines::object(&line.name), &by, &uncancelled(|| place(site)), found);
        tell::incident(ledger, what, line.name.context.id, by.tid, &text);
    });
}

/// Where an address lies, as addr2line(1) wants to know it: in which file, and how far from its beginning.
fn place(address: usize) -> String {
    let mut text = String::new();
    // SAFETY: a structure of pointers, of which NULL is one.
    let mut about: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: any address may be asked about; the out pointer is valid.
    let found = unsafe { libc::dladdr(core::ptr::without_provenance(address), &mut about) } != 0;
    if found && !about.dli_fname.is_null() {
        // SAFETY: a C string of the loader's, which stays as long as the file is loaded: its code is being run.
        let path = unsafe { core::ffi::CStr::from_ptr(about.dli_fname) }.to_string_lossy();
        let name = path.rsplit('/').next().unwrap_or_default();
        let _ = write!(text, "{name}+{:#x}", address.wrapping_sub(about.dli_fbase.addr()));
    } else {
        let _ = write!(text, "{address:#x}");
    }
    text
}
