//! What a notice says, decoded. An event need not be one of the table's: a copy will do.

use std::fmt::Write;

use ibv_sa_wire::{Gid, Notice};
use zerocopy::FromBytes;

use crate::abi::{c_char, c_int, ibv_gid};
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

/// A line about an event for people: what happened, to whom, who says so. As snprintf(3) does it.
///
/// @param event  an event, or a copy of one, whose attr is readable
/// @param text   where the line goes, cut to size - 1 bytes and a NUL; NULL if size is 0
/// @param size   bytes at text
///
/// Returns the length of the whole line, or -1 with errno EINVAL: NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_event_text(
    event: *const ibv_sa_event,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller passes an event and `size` bytes.
    unsafe { line(event, text, size) }
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

/// Memory of the program's, filled as far as it goes.
struct Line<'a> {
    room: &'a mut [u8],
    length: usize,
}

impl Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        // The last byte is for the NUL.
        let end = self.room.len().saturating_sub(1);
        if let Some(room) = self.room.get_mut(self.length..end) {
            let fits = room.len().min(text.len());
            room[..fits].copy_from_slice(&text.as_bytes()[..fits]);
        }
        self.length += text.len();
        Ok(())
    }
}

/// # Safety
/// As [`of`]; `text` has `size` writable bytes.
#[inline(never)]
unsafe extern "C" fn line(event: *const ibv_sa_event, text: *mut c_char, size: usize) -> c_int {
    let written = contained(|| {
        if event.is_null() || text.is_null() && size != 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: as the caller promises; the program sees bytes in it that were not initialised as zeros or text.
        let (notice, event, room) = unsafe {
            let room =
                if size == 0 { &mut [][..] } else { std::slice::from_raw_parts_mut(text.cast(), size) };
            (of(event), &*event, room)
        };
        let mut line = Line { room, length: 0 };
        let _ = match notice {
            Some(notice) => write!(line, "{notice}"),
            None => write!(line, "{}", crate::sa::text::of_event(event)),
        };
        if event.status != 0 {
            // SAFETY: a C string of the library.
            let status =
                unsafe { std::ffi::CStr::from_ptr(crate::sa::text::ibv_sa_status_str(event.status)) };
            let _ = write!(line, ": {}", status.to_str().unwrap_or_default());
        }
        let length = line.length;
        if let Some(end) = length.min(size.wrapping_sub(1)).checked_add(0).filter(|_| size != 0) {
            line.room[end] = 0;
        }
        Ok(length as c_int)
    });
    written.unwrap_or_else(|error| {
        set_errno(error);
        -1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_and_its_whole_length_told() {
        let mut room = [7_u8; 6];
        let mut line = Line { room: &mut room, length: 0 };
        write!(line, "abc{}", "defgh").unwrap();
        assert_eq!(line.length, 8);
        assert_eq!(&room, b"abcde\x07");
    }
}
