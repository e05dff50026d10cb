//! Words for numbers. All strings belong to the library and live as long as the process.

use core::ffi::CStr;

use ibv_sa_wire::{Notice, Trap};
use zerocopy::FromBytes;

use crate::abi::{c_char, c_int};
use crate::sa::notice;
use crate::sa::types::*;

/// The name of a trap, for example "GID in service".
///
/// @param trap_number  in network order
///
/// Returns a string that belongs to the library, "unknown trap" for a number without a name. Never fails.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn ibv_sa_trap_str(trap_number: __be16) -> *const c_char {
    c_of_trap(Trap(u16::from_be(trap_number))).as_ptr()
}

/// What an event says, for example "GID in service", "registration active", "notices lost".
///
/// @param event  an event, or a copy of one, whose attr is readable
///
/// Returns a string that belongs to the library, "no event" for NULL. Never fails.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_event_str(event: *const ibv_sa_event) -> *const c_char {
    if event.is_null() {
        return c"no event".as_ptr();
    }
    // SAFETY: the caller passes an event.
    unsafe { of_event_at(event) }.as_ptr()
}

/// What the status of an event means, for example "lost: the SM changed, or the daemon; register again".
///
/// @param status  the member of struct ibv_sa_event: 0 or a negative errno
///
/// Returns a string that belongs to the library, "unknown status" for a number that has no meaning. Never fails.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn ibv_sa_status_str(status: c_int) -> *const c_char {
    of_status(status).as_ptr()
}

fn of_status(status: c_int) -> &'static CStr {
    match -i64::from(status) as c_int {
        0 => c"active",
        libc::EACCES => c"refused: not allowed",
        libc::EINVAL => c"refused: the SA takes no such subscription",
        libc::ETIMEDOUT => c"no answer from the SA",
        libc::EBUSY => c"refused: too many registrations, no room at the SA, or another program has the port",
        libc::ENETDOWN => c"the port is down",
        libc::ENETRESET => c"lost: the SM changed, or the daemon; register again",
        libc::EOVERFLOW => c"notices were lost: events were not got in time",
        libc::ENODEV => c"no such device or port",
        libc::EOPNOTSUPP => c"not an InfiniBand port: it has no SA",
        libc::EPROTONOSUPPORT => c"the daemon is of another version",
        _ => c"unknown status",
    }
}

fn c_of_trap(trap: Trap) -> &'static CStr {
    name_of_trap(trap).unwrap_or(c"unknown trap")
}

/// The same for our own lines.
pub(crate) fn of_trap(trap: Trap) -> &'static str {
    c_of_trap(trap).to_str().unwrap_or_default()
}

/// None for a number without a name.
pub(crate) fn name_of_trap(trap: Trap) -> Option<&'static CStr> {
    Some(match trap {
        Trap::GID_IN_SERVICE => c"GID in service",
        Trap::GID_OUT_OF_SERVICE => c"GID out of service",
        Trap::MC_GROUP_CREATED => c"multicast group created",
        Trap::MC_GROUP_DELETED => c"multicast group deleted",
        Trap::PATH_UNAVAILABLE => c"path unavailable",
        Trap::PATH_CHANGED => c"path changed",
        Trap::PORT_STATE_CHANGED => c"link state changed",
        Trap::LINK_INTEGRITY => c"local link integrity threshold reached",
        Trap::BUFFER_OVERRUN => c"excessive buffer overrun threshold reached",
        Trap::FLOW_CONTROL_WATCHDOG => c"flow control update watchdog expired",
        Trap::CAPABILITY_CHANGED => c"port capabilities changed",
        Trap::SYSTEM_IMAGE_GUID_CHANGED => c"system image GUID changed",
        Trap::BAD_M_KEY => c"bad M_Key",
        Trap::BAD_P_KEY => c"bad P_Key",
        Trap::BAD_Q_KEY => c"bad Q_Key",
        Trap::BAD_P_KEY_AT_SWITCH => c"bad P_Key at a switch",
        Trap::ALL => c"all traps",
        _ => return None,
    })
}

/// # Safety
/// `event` is an event, or a copy of one.
unsafe fn of_event_at(event: *const ibv_sa_event) -> &'static CStr {
    // SAFETY: as the caller promises.
    unsafe { by_parts((*event).attr_id, (*event).status, notice::of(event).as_ref()) }
}

fn by_parts(attr_id: __be16, status: c_int, notice: Option<&Notice>) -> &'static CStr {
    match (attr_id, status, notice) {
        (ATTR_INFORM_INFO, 0, _) => c"registration active",
        (ATTR_INFORM_INFO, _, _) => c"registration lost",
        (ATTR_NOTICE, 0, Some(notice)) => notice.trap().map_or(c"notice of a vendor", c_of_trap),
        (ATTR_NOTICE, _, _) => c"notices lost",
        _ => c"unknown event",
    }
}

/// The same from an event's parts, of which the attribute counts if it is a notice's.
pub(crate) fn of_parts(attr_id: __be16, status: c_int, attribute: &[u8; Notice::SIZE]) -> &'static str {
    let notice = Notice::read_from_bytes(attribute).ok();
    by_parts(attr_id, status, notice.as_ref()).to_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traps_are_called_as_everywhere_else() {
        for number in 0..=u16::MAX {
            let name = Trap(number).name().unwrap_or("unknown trap");
            assert_eq!(of_trap(Trap(number)), name);
        }
    }

    #[test]
    fn statuses_are_negative() {
        assert_eq!(of_status(0), c"active");
        assert_eq!(of_status(-libc::ENETDOWN), c"the port is down");
        assert_eq!(of_status(libc::ENETDOWN), c"unknown status");
        assert_eq!(of_status(c_int::MIN), c"unknown status");
    }
}
