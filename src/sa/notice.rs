//! What a notice says, decoded. An event need not be one of the table's: a copy will do.

use ibv_sa_wire::{Gid, Notice};
use zerocopy::FromBytes;

use crate::abi::{c_int, ibv_gid};
use crate::boundary::set_errno;
use crate::sa::types::*;
use crate::sa::{answer, contained};

/// The notice of an event, if it has one.
///
/// # Safety
/// `event` is NULL or readable, and so is what attr points at, for attr_size bytes.
pub(crate) unsafe fn of(event: *const ibv_sa_event) -> Option<Notice> {
    // SAFETY: as the caller promises.
    unsafe {
        let event = event.as_ref()?;
        if event.attr_id != ATTR_NOTICE || event.attr.is_null() || (event.attr_size as usize) < Notice::SIZE {
            return None;
        }
        let bytes = std::slice::from_raw_parts(event.attr.cast::<u8>(), Notice::SIZE);
        Notice::read_from_bytes(bytes).ok()
    }
}

/// The trap number of a generic notice.
///
/// @param event  an event with attr_id IBV_SA_ATTR_NOTICE
///
/// Returns the number in host order, or -1 with errno EINVAL: no notice, or a vendor's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_notice_trap(event: *const ibv_sa_event) -> c_int {
    // SAFETY: the caller passes an event.
    unsafe { number(event, Number::Trap) }
}

/// The LID that a notice is about: of the port, or of the switch, that changed; where the packet with a wrong key came
/// from. Not of the issuer.
///
/// @param event  an event with attr_id IBV_SA_ATTR_NOTICE
///
/// Returns the LID in host order, or -1 with errno: EINVAL: no notice; ENODATA: it names no LID (traps 64 to 67).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_notice_lid(event: *const ibv_sa_event) -> c_int {
    // SAFETY: the caller passes an event.
    unsafe { number(event, Number::Lid) }
}

/// The GID that a notice is about: the port or the multicast group of traps 64 to 67, where the packet with a wrong key
/// came from; for what a port says of itself, its own.
///
/// @param event  an event with attr_id IBV_SA_ATTR_NOTICE
/// @param gid    where it goes, in network order
///
/// Returns 0, or -1 with errno: EINVAL: NULL, or no notice; ENODATA: it names no GID.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_notice_gid(event: *const ibv_sa_event, gid: *mut ibv_gid) -> c_int {
    // SAFETY: the caller passes an event and a place for the GID.
    unsafe { subject_gid(event, gid) }
}

/// Who issued a notice: for traps 64 to 67 the SM, otherwise the port that sent the trap.
///
/// @param event  an event with attr_id IBV_SA_ATTR_NOTICE
/// @param gid    where its GID goes, in network order; or NULL
/// @param lid    where its LID goes, in host order; or NULL
///
/// Returns 0, or -1 with errno EINVAL: no notice.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_notice_issuer(
    event: *const ibv_sa_event,
    gid: *mut ibv_gid,
    lid: *mut u16,
) -> c_int {
    // SAFETY: the caller passes an event and places that are NULL or writable.
    unsafe { issuer(event, gid, lid) }
}

#[repr(C)]
enum Number {
    Trap,
    Lid,
}

/// # Safety
/// As [`of`].
#[inline(never)]
unsafe extern "C" fn number(event: *const ibv_sa_event, which: Number) -> c_int {
    // SAFETY: as the caller promises.
    let notice = unsafe { of(event) };
    let found = contained(|| {
        let notice = notice.ok_or(libc::EINVAL)?;
        match which {
            Number::Trap => notice.trap().map(|trap| trap.0).ok_or(libc::EINVAL),
            Number::Lid => notice.subject_lids().first.ok_or(libc::ENODATA),
        }
    });
    match found {
        Ok(number) => number.into(),
        Err(error) => {
            set_errno(error);
            -1
        }
    }
}

/// # Safety
/// As [`of`]; `gid` is NULL or writable.
#[inline(never)]
unsafe extern "C" fn subject_gid(event: *const ibv_sa_event, gid: *mut ibv_gid) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (notice, gid) = unsafe { (of(event), gid.as_mut()) };
        let (Some(notice), Some(gid)) = (notice, gid) else { return Err(libc::EINVAL) };
        *gid = in_c(notice.subject_gids().first.ok_or(libc::ENODATA)?);
        Ok(())
    })
}

/// # Safety
/// As [`of`]; `gid` and `lid` are NULL or writable.
#[inline(never)]
unsafe extern "C" fn issuer(event: *const ibv_sa_event, gid: *mut ibv_gid, lid: *mut u16) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (notice, gid, lid) = unsafe { (of(event), gid.as_mut(), lid.as_mut()) };
        let notice = notice.ok_or(libc::EINVAL)?;
        if let Some(gid) = gid {
            *gid = in_c(notice.issuer_gid);
        }
        if let Some(lid) = lid {
            *lid = notice.issuer_lid.get();
        }
        Ok(())
    })
}

fn in_c(gid: Gid) -> ibv_gid {
    ibv_gid { raw: gid.0 }
}
