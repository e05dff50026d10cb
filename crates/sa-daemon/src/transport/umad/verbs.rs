//! libibverbs, opened at run time: only for the asynchronous events of a device, of which umad tells nothing.
//!
//! The daemon works without it and then looks at its ports more often.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use libloading::Library;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

const LIBRARY: &str = "libibverbs.so.1";

/// The beginning of `struct ibv_context`, the same since libibverbs 1.1.
#[repr(C)]
struct RawContext {
    device: *mut c_void,
    ops: [*mut c_void; 32],
    cmd_fd: c_int,
    async_fd: c_int,
}

/// `struct ibv_async_event`. For events of ports the element is a port's number, in an `int`.
#[repr(C)]
struct RawEvent {
    element: u64,
    event_type: c_int,
}

/// The library.
pub struct Verbs {
    get_device_list: unsafe extern "C" fn(*mut c_int) -> *mut *mut c_void,
    free_device_list: unsafe extern "C" fn(*mut *mut c_void),
    get_device_name: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    open_device: unsafe extern "C" fn(*mut c_void) -> *mut RawContext,
    close_device: unsafe extern "C" fn(*mut RawContext) -> c_int,
    get_async_event: unsafe extern "C" fn(*mut RawContext, *mut RawEvent) -> c_int,
    ack_async_event: unsafe extern "C" fn(*mut RawEvent),
    /// Last: the pointers above are into it.
    _library: Library,
}

/// Something happened to a device. Numbers are those of `enum ibv_event_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceEvent {
    /// A port may have another state, LID, SM or GID.
    Port(u8),
    /// The port was away, the SM is another one, or it asks for subscriptions again.
    Subscribe(u8),
    /// The device is gone, or as good as.
    Fatal,
    /// Nothing that matters here.
    Other,
}

impl Verbs {
    /// Opens the library.
    pub fn load() -> io::Result<Verbs> {
        let fail = |error: libloading::Error| io::Error::other(format!("{LIBRARY}: {error}"));
        // SAFETY: libibverbs's constructors ask nothing of their caller.
        let library = unsafe { Library::new(LIBRARY) }.map_err(fail)?;
        /// One function by name, with the type of the field it is for.
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the field has the function's type in `<infiniband/verbs.h>`, as far as the layout of its
                // arguments goes, and the pointer lives as long as `_library`, which is dropped with it.
                *unsafe { library.get($name) }.map_err(fail)?
            };
        }
        Ok(Verbs {
            get_device_list: function!(b"ibv_get_device_list\0"),
            free_device_list: function!(b"ibv_free_device_list\0"),
            get_device_name: function!(b"ibv_get_device_name\0"),
            open_device: function!(b"ibv_open_device\0"),
            close_device: function!(b"ibv_close_device\0"),
            get_async_event: function!(b"ibv_get_async_event\0"),
            ack_async_event: function!(b"ibv_ack_async_event\0"),
            _library: library,
        })
    }

    /// Opens a device by its name.
    pub fn open(self: &Arc<Self>, name: &str) -> io::Result<Context> {
        let mut count = 0;
        // SAFETY: the count is written; the list is freed below.
        let list = unsafe { (self.get_device_list)(&mut count) };
        if list.is_null() {
            return Err(io::Error::last_os_error());
        }
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the list has so many devices, and lives until it is freed.
        let devices = unsafe { std::slice::from_raw_parts(list, count) };
        let found = devices.iter().find(|device| {
            // SAFETY: a device of the list; its name is a terminated string inside it.
            let found = unsafe { CStr::from_ptr((self.get_device_name)(**device)) };
            found.to_bytes() == name.as_bytes()
        });
        let opened = found.map(|device| {
            // SAFETY: a device of the list, which is not freed yet.
            let raw = unsafe { (self.open_device)(*device) };
            NonNull::new(raw).ok_or_else(io::Error::last_os_error)
        });
        // SAFETY: from `get_device_list`, once. An open device stays.
        unsafe { (self.free_device_list)(list) };
        let raw = opened.unwrap_or_else(|| Err(io::Error::from_raw_os_error(libc::ENODEV)))?;
        let context = Context { raw, verbs: self.clone() };
        let flags = fcntl_getfl(context.fd())?;
        fcntl_setfl(context.fd(), flags | OFlags::NONBLOCK)?;
        Ok(context)
    }
}

/// An open device. Closed when it is dropped: one that holds a device open may keep its driver from letting it go.
pub struct Context {
    raw: NonNull<RawContext>,
    verbs: Arc<Verbs>,
}

// SAFETY: libibverbs's contexts may be used by any thread, and this one is used by one at a time.
unsafe impl Send for Context {}

impl Context {
    /// Readable when there is an event.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: an open context, with the descriptor that it owns until it is closed, not before `self` is dropped.
        unsafe { BorrowedFd::borrow_raw(ptr::addr_of!((*self.raw.as_ptr()).async_fd).read()) }
    }

    /// The next event, if there is one.
    pub fn event(&mut self) -> io::Result<Option<DeviceEvent>> {
        let mut event = RawEvent { element: 0, event_type: -1 };
        // SAFETY: an open context, and room for the event.
        if unsafe { (self.verbs.get_async_event)(self.raw.as_ptr(), &mut event) } != 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        }
        // An `int` in a union that begins where the event does.
        let bytes = event.element.to_ne_bytes();
        let number = c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let port = u8::try_from(number).unwrap_or(0);
        let meaning = match event.event_type {
            // PORT_ERR, LID_CHANGE, PKEY_CHANGE, GID_CHANGE
            10 | 11 | 12 | 18 => DeviceEvent::Port(port),
            // PORT_ACTIVE: it was down, however it looks by now; SM_CHANGE, CLIENT_REREGISTER
            9 | 13 | 17 => DeviceEvent::Subscribe(port),
            8 => DeviceEvent::Fatal,
            _ => DeviceEvent::Other,
        };
        // SAFETY: got just now and acked once. There are no QPs, CQs or SRQs of this context that it could be about.
        unsafe { (self.verbs.ack_async_event)(&mut event) };
        Ok(Some(meaning))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened once and closed once, with nothing made in it.
        unsafe { (self.verbs.close_device)(self.raw.as_ptr()) };
    }
}
