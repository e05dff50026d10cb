//! A registration is made.

use std::ffi::CStr;
use std::sync::atomic::AtomicU32;

use ibv_sa_wire::filter::component;
use ibv_sa_wire::proto::{PortSelector, Register};
use ibv_sa_wire::{Filter, Gid, Guid, LidRange, Subject, Trap};

use crate::abi::*;
use crate::provider::real;
use crate::sa::channel::find;
use crate::sa::connection::{self, say};
use crate::sa::id::{Id, Stage};
use crate::sa::process::{self, Kind, Process, Tables};
use crate::sa::table::NONE;
use crate::sa::text::{name_of_trap, of_trap};
use crate::sa::types::{ibv_sa_event_channel, ibv_sa_id, ibv_sa_inform_filter};
use crate::sa::{answer, receive};

/// Registers for the notices of one trap, or of all, that arrive at a port.
///
/// Returns at once. What becomes of the registration is told by an event with attr_id IBV_SA_ATTR_INFORM_INFO, context,
/// and a status: 0 when the SA has the subscription, otherwise a negative errno (see struct ibv_sa_event). It comes
/// before the first notice, and may reach another thread before this call has returned. Nothing is replayed: after each
/// status 0, read anew what is cached. The same trap may be registered more than once; each registration gets its own
/// events.
///
/// @param channel      gets the events
/// @param device       an open device; it may be closed while the registration lives
/// @param port_num     port of the device, from 1
/// @param trap_number  one of IBV_SA_SM_TRAP_*, or another trap number, in network order
/// @param context      comes back in each event
/// @param id           where the registration goes, which is given back with ibv_sa_free_id()
///
/// Returns 0, or -1 with errno and *id as it was:
/// EINVAL: NULL, no channel, or no such port; EBADF: the channel was destroyed, or is the parent's;
/// EOPNOTSUPP: the port's link layer is Ethernet, which has no SA; ENOENT, ECONNREFUSED: the daemon is gone;
/// EIO and others: the device could not be asked; ENOMEM: no memory.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_register_inform_info(
    channel: *mut ibv_sa_event_channel,
    device: *mut ibv_context,
    port_num: u8,
    trap_number: __be16,
    context: *mut c_void,
    id: *mut *mut ibv_sa_id,
) -> c_int {
    // SAFETY: the caller passes an open device and a place for the registration.
    unsafe { register(channel.addr(), device, port_num, trap_number, context, id) }
}

/// Registers for the notices that a filter describes.
///
/// As ibv_sa_register_inform_info(), and beyond it: the SA is asked for what it can filter, the daemon compares the
/// rest. Without any component all notices match.
///
/// @param channel   gets the events
/// @param device    an open device, or NULL for the one that filter->device_name names
/// @param port_num  port of the device, from 1
/// @param filter    which notices; not used after the call
/// @param context   comes back in each event
/// @param id        where the registration goes, which is given back with ibv_sa_free_id()
///
/// Returns 0, or -1 with errno as ibv_sa_register_inform_info() does; EINVAL also for unknown bits, two subjects, a
/// filter that nothing can match, a bad name, and a name beside a device. A device that is named is not looked for here:
/// -ENODEV or -EOPNOTSUPP is then the status of the event.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_sa_register_inform_info_ex(
    channel: *mut ibv_sa_event_channel,
    device: *mut ibv_context,
    port_num: u8,
    filter: *const ibv_sa_inform_filter,
    context: *mut c_void,
    id: *mut *mut ibv_sa_id,
) -> c_int {
    // SAFETY: the caller passes an open device or NULL, a filter, and a place for the registration.
    unsafe { register_ex(channel.addr(), device, port_num, filter, context, id) }
}

/// # Safety
/// `device` is NULL or open, `id` NULL or writable.
#[inline(never)]
unsafe extern "C" fn register(
    channel: usize,
    device: *mut ibv_context,
    port: u8,
    trap: __be16,
    context: *mut c_void,
    id: *mut *mut ibv_sa_id,
) -> c_int {
    answer(|| {
        if device.is_null() || id.is_null() {
            return Err(libc::EINVAL);
        }
        is_live(channel)?;
        // SAFETY: open, as the caller promises.
        let port = unsafe { port_of(device, port) }?;
        let wanted = Wanted { port, flags: 0, filter: Filter::trap(trap_of(trap)), context };
        let made = made(channel, wanted)?;
        // SAFETY: writable, as the caller promises.
        unsafe { *id = made };
        Ok(())
    })
}

/// # Safety
/// `device` is NULL or open, `filter` NULL or valid, `id` NULL or writable.
#[inline(never)]
unsafe extern "C" fn register_ex(
    channel: usize,
    device: *mut ibv_context,
    port: u8,
    filter: *const ibv_sa_inform_filter,
    context: *mut c_void,
    id: *mut *mut ibv_sa_id,
) -> c_int {
    answer(|| {
        if filter.is_null() || id.is_null() {
            return Err(libc::EINVAL);
        }
        is_live(channel)?;
        // SAFETY: valid, as the caller promises.
        let given = unsafe { *filter };
        let filter = filter_of(&given)?;
        let port = match (device.is_null(), given.device_name.is_null()) {
            // SAFETY: open, as the caller promises.
            (false, true) => unsafe { port_of(device, port) }?,
            // SAFETY: the caller passes a C string.
            (true, false) => port_named(unsafe { CStr::from_ptr(given.device_name) }, Guid::ZERO, port)?,
            _ => return Err(libc::EINVAL),
        };
        let made = made(channel, Wanted { port, flags: given.flags, filter, context })?;
        // SAFETY: writable, as the caller promises.
        unsafe { *id = made };
        Ok(())
    })
}

struct Wanted {
    port: PortSelector,
    flags: u32,
    filter: Filter,
    context: *mut c_void,
}

/// A bad channel is told before a bad port.
fn is_live(channel: usize) -> Result<(), c_int> {
    process::with(Kind::Channel, channel, find, |_, tables, index| {
        if tables.channels.get(index).closing { Err(libc::EBADF) } else { Ok(()) }
    })
}

fn made(channel: usize, wanted: Wanted) -> Result<*mut ibv_sa_id, c_int> {
    process::with(Kind::Channel, channel, find, |process, tables, index| {
        if tables.channels.get(index).closing {
            return Err(libc::EBADF);
        }
        // A connection that has ended is found out now: the registration is not lost with it.
        if !has_ended(tables, index) {
            return insert(tables, index, wanted);
        }
        receive::rest(tables, index);
        reconnected(process, tables, index)?;
        insert(tables, index, wanted)
    })
}

/// Whether there is no connection, or one whose other end is closed.
fn has_ended(tables: &Tables, index: u32) -> bool {
    let link = tables.channels.get(index).link;
    let mut state = libc::pollfd { fd: link.fd, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one valid pollfd; a timeout of 0 never waits.
    !link.is_up() || unsafe { libc::poll(&mut state, 1, 0) } == 1
}

fn reconnected(process: &Process, tables: &mut Tables, index: u32) -> Result<(), c_int> {
    let channel = tables.channels.get_mut(index);
    if channel.link.is_up() { Ok(()) } else { connection::connect(process, channel) }
}

fn insert(tables: &mut Tables, channel: u32, wanted: Wanted) -> Result<*mut ibv_sa_id, c_int> {
    let Wanted { port, flags, filter, context } = wanted;
    let first = tables.channels.get(channel).first_id;
    let id = Id {
        register: Register { id: 0, flags, port, filter },
        channel,
        context,
        stage: Stage::ToAsk,
        told: None,
        leaving: false,
        gone: false,
        open: 0,
        changes: AtomicU32::new(0),
        next: first,
        previous: NONE,
    };
    let index = tables.ids.insert(id).ok_or(libc::ENOMEM)?;
    tables.made += 1;
    let id = tables.ids.get_mut(index);
    id.register.id = tables.made << 24 | u64::from(index);
    if first != NONE {
        tables.ids.get_mut(first).previous = index;
    }
    tables.channels.get_mut(channel).first_id = index;
    connection::flush(tables, channel);
    Ok(tables.ids.address(index))
}

/// A trap number as it was meant: one in host order is none that exists, and its bytes swapped are one.
fn trap_of(given: __be16) -> Trap {
    let (network, host) = (Trap(u16::from_be(given)), Trap(given));
    if network == host || name_of_trap(network).is_some() || name_of_trap(host).is_none() {
        return network;
    }
    say(&format!(
        "ibv_sa_register_inform_info: trap number {0} is in host order, taken for trap {0} {1}; use htobe16({0}) or \
         the constants of <infiniband/ibv_sa.h>",
        host.0,
        of_trap(host)
    ));
    host
}

fn filter_of(given: &ibv_sa_inform_filter) -> Result<Filter, c_int> {
    let mask = given.comp_mask;
    let subjects = component::SUBJECT_GID | component::SUBJECT_LID;
    let known = mask & !component::ALL == 0 && given.flags & !Register::FLAGS == 0;
    if !known || mask & subjects == subjects || given.is_generic > 1 && mask & component::IS_GENERIC != 0 {
        return Err(libc::EINVAL);
    }
    let has = |component: u32| mask & component != 0;
    // SAFETY: all bytes of the union are the GID's.
    let gid = |gid: &ibv_gid| Gid(unsafe { gid.raw });
    let subject = if has(component::SUBJECT_GID) {
        Some(Subject::Gid(gid(&given.subject_gid)))
    } else {
        has(component::SUBJECT_LID).then_some(Subject::Lid(given.subject_lid))
    };
    let filter = Filter {
        gid: has(component::GID).then(|| gid(&given.gid)),
        lids: has(component::LIDS).then_some(LidRange { begin: given.lid_begin, end: given.lid_end }),
        is_generic: has(component::IS_GENERIC).then_some(given.is_generic == 1),
        kind: has(component::TYPE).then_some(given.type_),
        trap: has(component::TRAP).then_some(u16::from_be(given.trap_number)),
        producer: has(component::PRODUCER).then_some(given.producer),
        subject,
    };
    filter.check().map_err(|_| libc::EINVAL)?;
    Ok(filter)
}

/// # Safety
/// `device` is open.
unsafe fn port_of(device: *mut ibv_context, port: u8) -> Result<PortSelector, c_int> {
    let (query_device, query_port) = match (real::ibv_query_device(), real::ibv_query_port()) {
        (Some(device), Some(port)) => (device, port),
        _ => return Err(libc::EOPNOTSUPP),
    };
    let mut attr = std::mem::MaybeUninit::<ibv_device_attr>::zeroed();
    // SAFETY: open, as the caller promises; the structure is as large as libibverbs's.
    let attr = unsafe {
        failed(query_device(device, attr.as_mut_ptr()))?;
        attr.assume_init()
    };
    if port == 0 || port > attr.phys_port_cnt {
        return Err(libc::EINVAL);
    }
    // The exported function fills the structure as far as it went before port_cap_flags2 came.
    let mut state = std::mem::MaybeUninit::<ibv_port_attr>::zeroed();
    // SAFETY: as above.
    let state = unsafe {
        failed(query_port(device, port, state.as_mut_ptr().cast()))?;
        state.assume_init()
    };
    if c_int::from(state.link_layer) == IBV_LINK_LAYER_ETHERNET as c_int {
        return Err(libc::EOPNOTSUPP);
    }
    // SAFETY: an open context points at its device, whose name ends within its array or with it.
    let name = unsafe {
        let name = &(*(*device).device).name;
        std::slice::from_raw_parts(name.as_ptr().cast::<u8>(), name.len())
    };
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    selector(std::str::from_utf8(name).map_err(|_| libc::EINVAL)?, Guid(attr.node_guid.to_ne_bytes()), port)
}

fn port_named(name: &CStr, guid: Guid, port: u8) -> Result<PortSelector, c_int> {
    selector(name.to_str().map_err(|_| libc::EINVAL)?, guid, port)
}

fn selector(name: &str, guid: Guid, port: u8) -> Result<PortSelector, c_int> {
    PortSelector::new(name, guid, port).map_err(|_| libc::EINVAL)
}

/// Queries return an error number; some providers -1 with errno.
fn failed(result: c_int) -> Result<(), c_int> {
    match result {
        0 => Ok(()),
        error if error > 0 => Err(error),
        _ => Err(crate::sa::sys::last()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trap_in_host_order_is_understood() {
        assert_eq!(trap_of(64_u16.to_be()), Trap::GID_IN_SERVICE);
        assert_eq!(trap_of(0xFFFF), Trap::ALL);
        assert_eq!(trap_of(257_u16.to_be()), Trap::BAD_P_KEY);
        assert_eq!(trap_of(7_u16.to_be()), Trap(7));
        if cfg!(target_endian = "little") {
            assert_eq!(trap_of(64), Trap::GID_IN_SERVICE);
            assert_eq!(trap_of(144), Trap::CAPABILITY_CHANGED);
        }
    }
}
