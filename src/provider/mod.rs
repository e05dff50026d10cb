//! Who does the work: libibverbs, or the library that `IBV_SA_PROVIDER` names.
//!
//! Opened once, at the first RDMA call, and never closed: providers keep pointers and threads.

mod age;
pub(crate) mod real;

pub(crate) use age::{is_before_59, is_rxe};

use core::ffi::CStr;
use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;

use libc::{c_char, c_int, c_void};
use libloading::os::unix::{Library, RTLD_LAZY};
use once_cell::race::OnceNonZeroUsize;

use crate::boundary::{contain, uncancelled};
use crate::{settings, stderr};

const DEFAULT: &str = "libibverbs.so.1";

/// Stands for "tried, and not there" in places that hold an address or a handle.
const ABSENT: NonZeroUsize = NonZeroUsize::MIN;

static HANDLE: OnceNonZeroUsize = OnceNonZeroUsize::new();

/// The real function behind one exported symbol. All are looked up together at the first call of any: a look-up takes
/// the loader's lock, which a later first call (in a thread that a library's destructor waits for, in a child that was
/// forked while another thread opened a library) could wait for for ever.
pub(crate) struct Slot {
    name: &'static CStr,
    /// Absent for functions under the private node, whose number changes with every release.
    node: Option<&'static CStr>,
    address: OnceNonZeroUsize,
}

impl Slot {
    pub(crate) const fn new(name: &'static CStr, node: Option<&'static CStr>) -> Self {
        Self { name, node, address: OnceNonZeroUsize::new() }
    }

    /// The function's address; 0 if the provider has no such function.
    #[inline]
    pub(crate) fn address(&'static self) -> usize {
        match self.address.get() {
            Some(ABSENT) => 0,
            Some(address) => address.get(),
            None => resolve(self),
        }
    }
}

#[cold]
#[inline(never)]
extern "C" fn resolve(slot: &'static Slot) -> usize {
    let found = contain(ABSENT, || {
        uncancelled(|| {
            for other in real::ALL {
                other.address.get_or_init(|| look_up(other.name, other.node));
            }
            slot.address.get_or_init(|| look_up(slot.name, slot.node))
        })
    });
    if found == ABSENT { 0 } else { found.get() }
}

fn look_up(name: &CStr, node: Option<&CStr>) -> NonZeroUsize {
    let Some(handle) = handle() else { return ABSENT };
    // SAFETY: the handle is open and never closed; name and node are C strings (dlsym(3)).
    let address = unsafe {
        match node {
            Some(node) => libc::dlvsym(handle, name.as_ptr(), node.as_ptr()),
            None => libc::dlsym(handle, name.as_ptr()),
        }
    };
    match NonZeroUsize::new(address as usize) {
        // A provider that leads back to us (we were installed under its name) would call itself for ever.
        Some(address) if !is_ours(address) => address,
        _ => ABSENT,
    }
}

/// Whether there is a library to forward to; opens it if this has not been tried.
pub(crate) fn exists() -> bool {
    contain(false, || uncancelled(|| handle().is_some()))
}

/// The name of the provider, as it was or would be opened.
pub(crate) fn name() -> String {
    match settings::if_read().and_then(|settings| settings.provider.as_ref()) {
        Some(path) => path.to_string_lossy().into_owned(),
        None => DEFAULT.into(),
    }
}

fn handle() -> Option<*mut c_void> {
    let handle = HANDLE.get_or_init(open);
    (handle != ABSENT).then_some(handle.get() as *mut c_void)
}

fn open() -> NonZeroUsize {
    let chosen = settings::get().provider.as_deref();
    // SAFETY: constructors of libibverbs and of what it needs may run at any time.
    let opened = unsafe {
        match chosen {
            Some(path) => Library::open(Some(OsStr::from_bytes(path.to_bytes())), RTLD_LAZY),
            // First without loading: a program that has libibverbs already keeps the one it has.
            None => Library::open(Some(DEFAULT), RTLD_LAZY | libc::RTLD_NOLOAD)
                .or_else(|_| Library::open(Some(DEFAULT), RTLD_LAZY)),
        }
    };
    match opened {
        Ok(library) => NonZeroUsize::new(library.into_raw() as usize).unwrap_or(ABSENT),
        Err(error) => {
            // Many programs try RDMA and go on without it: only a library that was asked for is missed aloud.
            if chosen.is_some() {
                stderr::say(&format!(
                    "IBV_SA_PROVIDER: {error}; all RDMA calls will fail (name a library with libibverbs's ABI)"
                ));
            }
            ABSENT
        }
    }
}

fn is_ours(address: NonZeroUsize) -> bool {
    static MARK: u8 = 0;
    let base = |address: *const c_void| {
        let mut info: libc::Dl_info = libc::Dl_info {
            dli_fname: std::ptr::null(),
            dli_fbase: std::ptr::null_mut(),
            dli_sname: std::ptr::null::<c_char>(),
            dli_saddr: std::ptr::null_mut(),
        };
        // SAFETY: dladdr accepts any address and fills `info` when it returns non-zero (dladdr(3)).
        let known: c_int = unsafe { libc::dladdr(address, &mut info) };
        (known != 0).then_some(info.dli_fbase)
    };
    base(address.get() as *const c_void) == base((&raw const MARK).cast())
}
