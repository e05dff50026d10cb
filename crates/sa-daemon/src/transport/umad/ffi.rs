//! libibumad, opened at run time: the only place where its functions are called.
//!
//! What its structures look like is read from `<infiniband/umad.h>` of rdma-core 44; they are the same from 1.x to 65.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::io;
use std::mem::zeroed;

use ibv_sa_wire::Guid;
use libloading::Library;

const LIBRARY: &str = "libibumad.so.3";
const NAME: usize = 20;
/// More than libibumad finds.
const DEVICES: usize = 256;
const PORTS: usize = 10;

/// `umad_port_t`.
#[repr(C)]
struct RawPort {
    ca_name: [c_char; NAME],
    portnum: c_int,
    base_lid: u32,
    lmc: u32,
    sm_lid: u32,
    sm_sl: u32,
    state: u32,
    phys_state: u32,
    rate: u32,
    capmask: u32,
    gid_prefix: u64,
    port_guid: u64,
    pkeys_size: u32,
    pkeys: *mut u16,
    link_layer: [c_char; NAME],
}

/// `umad_ca_t`.
#[repr(C)]
struct RawDevice {
    ca_name: [c_char; NAME],
    node_type: u32,
    numports: c_int,
    fw_ver: [c_char; 20],
    ca_type: [c_char; 40],
    hw_ver: [c_char; 20],
    node_guid: u64,
    system_guid: u64,
    ports: [*mut RawPort; PORTS],
}

/// What sysfs says of a port.
#[derive(Debug, Clone)]
pub struct Port {
    pub base_lid: u16,
    pub sm_lid: u16,
    pub sm_sl: u8,
    pub state: u32,
    pub gid_prefix: [u8; 8],
    pub port_guid: Guid,
    pub link_layer: String,
}

/// What sysfs says of a device.
#[derive(Debug, Clone)]
pub struct Device {
    pub node_guid: Guid,
    pub ports: u8,
}

/// A port that is open. Closed with `Umad::close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle(c_int);

/// A class that is registered at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agent(c_int);

/// The library.
pub struct Umad {
    get_cas_names: unsafe extern "C" fn(*mut [c_char; NAME], c_int) -> c_int,
    get_ca: unsafe extern "C" fn(*const c_char, *mut RawDevice) -> c_int,
    release_ca: unsafe extern "C" fn(*mut RawDevice) -> c_int,
    get_port: unsafe extern "C" fn(*const c_char, c_int, *mut RawPort) -> c_int,
    release_port: unsafe extern "C" fn(*mut RawPort) -> c_int,
    open_port: unsafe extern "C" fn(*const c_char, c_int) -> c_int,
    close_port: unsafe extern "C" fn(c_int) -> c_int,
    register: unsafe extern "C" fn(c_int, c_int, c_int, u8, *mut c_long) -> c_int,
    size: unsafe extern "C" fn() -> usize,
    unregister: unsafe extern "C" fn(c_int, c_int) -> c_int,
    send: unsafe extern "C" fn(c_int, c_int, *mut c_void, c_int, c_int, c_int) -> c_int,
    recv: unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, c_int) -> c_int,
    /// Last: the pointers above are into it.
    _library: Library,
}

impl Umad {
    /// Opens the library.
    pub fn load() -> io::Result<Umad> {
        let fail = |error: libloading::Error| io::Error::other(format!("{LIBRARY}: {error}"));
        // SAFETY: libibumad has no constructor that asks anything of its caller.
        let library = unsafe { Library::new(LIBRARY) }.map_err(fail)?;
        /// One function by name, with the type of the field it is for.
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the field has the function's type in `<infiniband/umad.h>`, and the pointer lives as long as
                // `_library`, which is dropped with it.
                *unsafe { library.get($name) }.map_err(fail)?
            };
        }
        let init: unsafe extern "C" fn() -> c_int = function!(b"umad_init\0");
        // SAFETY: no arguments; to be called before all others, as it is here.
        if unsafe { init() } != 0 {
            return Err(io::Error::other("libibumad does not know this kernel's umad"));
        }
        Ok(Umad {
            get_cas_names: function!(b"umad_get_cas_names\0"),
            get_ca: function!(b"umad_get_ca\0"),
            release_ca: function!(b"umad_release_ca\0"),
            get_port: function!(b"umad_get_port\0"),
            release_port: function!(b"umad_release_port\0"),
            open_port: function!(b"umad_open_port\0"),
            close_port: function!(b"umad_close_port\0"),
            register: function!(b"umad_register\0"),
            size: function!(b"umad_size\0"),
            unregister: function!(b"umad_unregister\0"),
            send: function!(b"umad_send\0"),
            recv: function!(b"umad_recv\0"),
            _library: library,
        })
    }

    /// Names of all devices that have umad.
    pub fn devices(&self) -> Vec<String> {
        let mut names = [[0; NAME]; DEVICES];
        // SAFETY: room for as many names of that size as the second argument says.
        let count = unsafe { (self.get_cas_names)(names.as_mut_ptr(), DEVICES as c_int) };
        names.iter().take(usize::try_from(count).unwrap_or(0)).map(text).collect()
    }

    /// What sysfs says of a device.
    pub fn device(&self, name: &str) -> io::Result<Device> {
        let name = c_name(name)?;
        // SAFETY: integers, arrays of them and pointers, for all of which zero is a value.
        let mut raw: RawDevice = unsafe { zeroed() };
        // SAFETY: a terminated name, and a structure to be filled that has the library's layout.
        check(unsafe { (self.get_ca)(name.as_ptr(), &mut raw) })?;
        let ports = u8::try_from(raw.numports).unwrap_or(0);
        let device = Device { node_guid: Guid(raw.node_guid.to_ne_bytes()), ports };
        // SAFETY: filled by `get_ca` and released once.
        unsafe { (self.release_ca)(&mut raw) };
        Ok(device)
    }

    /// What sysfs says of a port.
    pub fn port(&self, name: &str, number: u8) -> io::Result<Port> {
        let name = c_name(name)?;
        // SAFETY: integers, arrays of them and a pointer, for all of which zero is a value.
        let mut raw: RawPort = unsafe { zeroed() };
        // SAFETY: a terminated name, and a structure to be filled that has the library's layout.
        check(unsafe { (self.get_port)(name.as_ptr(), c_int::from(number), &mut raw) })?;
        let port = Port {
            base_lid: raw.base_lid as u16,
            sm_lid: raw.sm_lid as u16,
            sm_sl: raw.sm_sl as u8,
            state: raw.state,
            gid_prefix: raw.gid_prefix.to_ne_bytes(),
            port_guid: Guid(raw.port_guid.to_ne_bytes()),
            link_layer: text(&raw.link_layer),
        };
        // SAFETY: filled by `get_port` and released once.
        unsafe { (self.release_port)(&mut raw) };
        Ok(port)
    }

    /// Opens a port.
    pub fn open(&self, name: &str, number: u8) -> io::Result<Handle> {
        let name = c_name(name)?;
        // SAFETY: a terminated name.
        match check(unsafe { (self.open_port)(name.as_ptr(), c_int::from(number)) }) {
            // It returns EIO whenever open(2) fails; errno says why.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Err(io::Error::last_os_error()),
            other => other.map(Handle),
        }
    }

    /// Bytes in front of a MAD: `PREFIX`, or without what old kernels do not know. Asked of the kernel by `open`.
    pub fn prefix(&self) -> usize {
        // SAFETY: no arguments.
        unsafe { (self.size)() }.min(super::PREFIX)
    }

    /// Registers a class: requests with these methods come to us, and so do answers to what we send.
    pub fn register(
        &self,
        port: Handle,
        class: u8,
        version: u8,
        rmpp: u8,
        methods: &[u8],
    ) -> io::Result<Agent> {
        const BITS: usize = c_long::BITS as usize;
        let mut mask = [0 as c_long; 128 / BITS];
        for method in methods {
            mask[usize::from(*method) / BITS % mask.len()] |= 1 << (usize::from(*method) % BITS);
        }
        let (class, version) = (c_int::from(class), c_int::from(version));
        // SAFETY: 128 bits of methods, as the library expects.
        let agent = unsafe { (self.register)(port.0, class, version, rmpp, mask.as_mut_ptr()) };
        if agent < 0 {
            // It returns EPERM for everything; errno is the kernel's.
            return Err(io::Error::last_os_error());
        }
        Ok(Agent(agent))
    }

    /// Ends the registration and closes the port.
    pub fn close(&self, port: Handle, agent: Option<Agent>) {
        if let Some(agent) = agent {
            // SAFETY: integers only.
            unsafe { (self.unregister)(port.0, agent.0) };
        }
        // SAFETY: integers only. The handle is not used again: its only owner ends with this call.
        unsafe { (self.close_port)(port.0) };
    }

    /// Sends a MAD of 256 bytes behind a prefix of that length. The kernel reports the failure if no answer comes in time.
    pub fn send(
        &self,
        port: Handle,
        agent: Agent,
        packet: &mut super::Packet,
        timeout: u32,
    ) -> io::Result<()> {
        let timeout = c_int::try_from(timeout).unwrap_or(c_int::MAX);
        // SAFETY: prefix and 256 bytes, which is the length that is given, aligned for the numbers that the library writes
        // into the prefix.
        check(unsafe { (self.send)(port.0, agent.0, packet.0.as_mut_ptr().cast(), 256, timeout, 0) })
            .map(|_| ())
    }

    /// Waits for a MAD. Returns its length behind the prefix; `Ok(None)` if none came in time. If it does not fit, the
    /// error is ENOSPC and it stays.
    pub fn receive(&self, port: Handle, packet: &mut [u8], timeout: u32) -> io::Result<Option<usize>> {
        debug_assert!(packet.as_ptr().cast::<u64>().is_aligned());
        let room = packet.len().saturating_sub(self.prefix());
        let mut length = c_int::try_from(room).unwrap_or(c_int::MAX);
        let timeout = c_int::try_from(timeout).unwrap_or(c_int::MAX);
        // SAFETY: prefix and `length` bytes of room, or no more than there are; the library says how much it used.
        let result = unsafe { (self.recv)(port.0, packet.as_mut_ptr().cast(), &mut length, timeout) };
        match check(result) {
            Ok(_) => Ok(Some(usize::try_from(length).unwrap_or(0).min(room))),
            Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The library returns negative errnos.
fn check(result: c_int) -> io::Result<c_int> {
    if result >= 0 { Ok(result) } else { Err(io::Error::from_raw_os_error(result.saturating_neg())) }
}

fn c_name(name: &str) -> io::Result<CString> {
    if name.len() >= NAME {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    CString::new(name).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))
}

fn text(array: &[c_char; NAME]) -> String {
    let bytes: Vec<u8> = array.iter().map(|c| c.cast_unsigned()).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
}
