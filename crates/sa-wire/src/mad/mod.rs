//! SA management datagrams: headers, attributes, requests and what comes back.
//!
//! A MAD of the SA class is 256 bytes: the common header (24), the RMPP header (12), the SA header (20) and
//! 200 bytes of attribute. A table that a kernel put together from RMPP segments is one such header followed by
//! as much data as there is; [`SaMessage`] takes both. Numbers are big-endian on the wire.
//!
//! | from | to | MAD | made by | read by |
//! |---|---|---|---|---|
//! | port | SA | Set(InformInfo), Subscribe = 1 | [`request::subscribe`] | |
//! | port | SA | Set(InformInfo), Subscribe = 0 | [`request::unsubscribe`] | |
//! | SA | port | GetResp(InformInfo) | | [`Received::InformInfo`] |
//! | port | SA | GetTable(InformInfoRecord) | [`request::inform_info_table`] | |
//! | SA | port | GetTableResp(InformInfoRecord) | | [`Received::InformInfoTable`] |
//! | SA | port | Report(Notice) | | [`Received::Report`] |
//! | port | SA | ReportResp(Notice) | [`Report::response`] | |
//! | port | SA | Get(ClassPortInfo) | [`request::class_port_info`] | |
//! | SA | port | GetResp(ClassPortInfo) | | [`Received::ClassPortInfo`] |
//!
//! Answers are matched by the low 32 bits of the transaction id ([`tid_low`]): kernel and simulator use the high
//! half for themselves. A Report is answered with all 64 bits as they came. [`reply`] makes the SA's side.
//!
//! ```
//! use ibv_sa_wire::mad::{Notice, Received, Subscription, Trap, reply, request};
//!
//! let mad = request::subscribe(0x1001, &Subscription::trap(Trap::GID_IN_SERVICE));
//! assert_eq!(mad.as_bytes().len(), 256);
//!
//! let gid = "fe80::10:7".parse().unwrap();
//! let from_sa = reply::report(0x2_02da_b001, &Notice::about_gid(Trap::GID_IN_SERVICE, gid, 1, gid));
//! let Ok(Received::Report(report)) = Received::decode(from_sa.as_bytes()) else { panic!() };
//! let answer = report.response(); // goes out first
//! assert_eq!(answer.tid(), 0x2_02da_b001);
//! assert_eq!(report.tid(), 0x02da_b001);
//! assert_eq!(report.notice().gid(), Some(gid));
//! ```

mod class_port_info;
mod codes;
mod details;
mod header;
mod inform;
mod mcmember;
mod message;
mod notice;
pub mod reply;
pub mod request;
mod trap;

pub use class_port_info::ClassPortInfo;
pub use codes::{Attribute, Method, Status};
pub use details::{BadKey, BadMKey, BadSwitchPKey, LocalChange, Subjects, changes};
pub use header::{Headers, MadHeader, RmppHeader, SaHeader};
pub use inform::{InformInfo, InformInfoRecord, LidRangeError, Subscription};
pub use mcmember::McMemberRecord;
pub use message::{MadError, Received, Records, Report, ReportKey, SaMad, SaMessage, tid_low};
pub use notice::{Notice, NoticeKind, NoticeType, Producer, U24};
pub use trap::Trap;

/// Bytes of a MAD that is not part of a longer RMPP transfer.
pub const MAD_SIZE: usize = 256;
/// Bytes of the three headers in front of an SA attribute.
pub const HEADERS_SIZE: usize = 56;
/// The SA's management class.
pub const SA_CLASS: u8 = 0x03;
/// The version of that class.
pub const SA_CLASS_VERSION: u8 = 2;
/// The queue pair to which general management datagrams go, the SA's among them.
pub const GSI_QPN: u32 = 1;
/// The Q_Key of that queue pair. Reports carry it whatever queue pair they go to.
pub const GSI_QKEY: u32 = 0x8001_0000;
