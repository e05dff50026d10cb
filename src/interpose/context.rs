//! Contexts: opened, imported, adopted when first seen, closed; and the device list, where most programs begin.

use ibv_sa_ledger::Closing;

use crate::abi::*;
use crate::boundary::{bookkeeping, set_errno};
use crate::clock;
use crate::forward::absent;
use crate::interpose::{backlog, completion, trampoline};
use crate::provider::{self, real};

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    match real::ibv_get_device_list() {
        // SAFETY: the caller's promises are those that the real function asks for.
        Some(function) => unsafe { function(num_devices) },
        // SAFETY: the caller passes NULL or a place for the number.
        None => unsafe { no_device_list(num_devices) },
    }
}

/// Without any libibverbs the list fails as libibverbs itself does where the kernel has no RDMA: none, ENOSYS.
///
/// # Safety
/// `num_devices` is NULL or writable.
#[cold]
#[inline(never)]
unsafe extern "C" fn no_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    // SAFETY: as the caller promises.
    if let Some(number) = unsafe { num_devices.as_mut() } {
        *number = 0;
    }
    set_errno(if provider::exists() { libc::EOPNOTSUPP } else { libc::ENOSYS });
    core::ptr::null_mut()
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let Some(function) = real::ibv_open_device() else { return absent!(null) };
    let began = clock::now();
    // SAFETY: the caller's promises are those that the real function asks for.
    let context = unsafe { function(device) };
    // SAFETY: NULL, or a context that the real function has just made.
    unsafe { opened(context, began) };
    context
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    let Some(function) = real::ibv_import_device() else { return absent!(null) };
    let began = clock::now();
    // SAFETY: the caller's promises are those that the real function asks for.
    let context = unsafe { function(cmd_fd) };
    // SAFETY: NULL, or a context that the real function has just made.
    unsafe { opened(context, began) };
    context
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    let Some(function) = real::ibv_close_device() else { return absent!(minus1) };
    let closing = before_close(context);
    // SAFETY: the caller's promises are those that the real function asks for.
    let result = unsafe { function(context) };
    after_close(closing, result);
    result
}

#[inline(never)]
extern "C" fn before_close(context: *mut ibv_context) -> Closing {
    let mut closing = Closing::default();
    bookkeeping(|ledger| {
        backlog::look(ledger, context.addr(), clock::now());
        completion::all_end(ledger, Some(context.addr()));
        closing = ledger.context_closing(context.addr());
    });
    closing
}

#[inline(never)]
extern "C" fn after_close(closing: Closing, result: c_int) {
    bookkeeping(|ledger| ledger.context_close_ended(closing, result == 0));
}

/// # Safety
/// `context` is NULL or open.
#[inline(never)]
unsafe extern "C" fn opened(context: *mut ibv_context, began: u64) {
    if context.is_null() {
        return;
    }
    bookkeeping(|ledger| {
        // SAFETY: open, as the caller promises.
        unsafe {
            ledger.context_opened(context.addr(), device_name(context), began);
            ledger.async_fd_is(context.addr(), (*context).async_fd);
            trampoline::watch(context, ledger);
        }
    });
}

/// Takes a context into the books that did not come through our open or import: libraries have open calls of
/// their own (mlx5dv_open_device).
///
/// # Safety
/// `context` is NULL or open.
#[inline(never)]
pub(crate) unsafe extern "C" fn adopt(context: *mut ibv_context) {
    if !context.is_null() {
        // SAFETY: open, as the caller promises.
        bookkeeping(|ledger| unsafe { adopt_into(ledger, context) });
    }
}

/// # Safety
/// `context` is open.
pub(crate) unsafe fn adopt_into(ledger: &'static ibv_sa_ledger::Ledger, context: *mut ibv_context) {
    if !ledger.knows_context(context.addr()) {
        // SAFETY: open, as the caller promises.
        unsafe {
            ledger.context_adopted(context.addr(), device_name(context), clock::now());
            ledger.async_fd_is(context.addr(), (*context).async_fd);
            trampoline::watch(context, ledger);
        }
    }
}

/// The device's transport; unknown if there is no device.
///
/// # Safety
/// `context` is open.
pub(crate) unsafe fn transport(context: *mut ibv_context) -> ibv_transport_type {
    // SAFETY: an open context points at its device, or at none.
    unsafe { (*context).device.as_ref().map_or(IBV_TRANSPORT_UNKNOWN, |device| device.transport_type) }
}

/// # Safety
/// `context` is open; the result lives as long as its device.
unsafe fn device_name<'a>(context: *mut ibv_context) -> &'a [u8] {
    // SAFETY: an open context points at its device (struct ibv_context, <infiniband/verbs.h>), which outlives it and
    // whose name is an array that is not changed any more.
    let name: &[u8] = unsafe {
        let device = (*context).device;
        if device.is_null() {
            return b"";
        }
        let name = &raw const (*device).name;
        core::slice::from_raw_parts(name.cast(), size_of_val(&*name))
    };
    // A provider may fill the array to its end.
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}
