//! Numbers with names: methods, attributes, statuses. Any number passes through; unknown ones have no name.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a MAD asks for or answers (IBA 13.4.5 and 15.2.2).
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct Method(pub u8);

impl Method {
    /// Request of one attribute.
    pub const GET: Method = Method(0x01);
    /// Request of a change; for InformInfo, a subscription or its end.
    pub const SET: Method = Method(0x02);
    /// Notice to a manager.
    pub const TRAP: Method = Method(0x05);
    /// Notice to a subscriber.
    pub const REPORT: Method = Method(0x06);
    /// The manager has seen a trap.
    pub const TRAP_REPRESS: Method = Method(0x07);
    /// Request of all records that match.
    pub const GET_TABLE: Method = Method(0x12);
    /// Request to delete a record.
    pub const DELETE: Method = Method(0x15);
    /// Answer to Get and Set.
    pub const GET_RESP: Method = Method(0x81);
    /// A subscriber has seen a report.
    pub const REPORT_RESP: Method = Method(0x86);
    /// Answer to GetTable.
    pub const GET_TABLE_RESP: Method = Method(0x92);
    /// Answer to Delete.
    pub const DELETE_RESP: Method = Method(0x95);

    /// Whether it answers something.
    pub fn is_response(self) -> bool {
        self.0 & 0x80 != 0 || self == Method::TRAP_REPRESS
    }

    /// Its name in the specification.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Method::GET => "Get",
            Method::SET => "Set",
            Method::TRAP => "Trap",
            Method::REPORT => "Report",
            Method::TRAP_REPRESS => "TrapRepress",
            Method::GET_TABLE => "GetTable",
            Method::DELETE => "Delete",
            Method::GET_RESP => "GetResp",
            Method::REPORT_RESP => "ReportResp",
            Method::GET_TABLE_RESP => "GetTableResp",
            Method::DELETE_RESP => "DeleteResp",
            _ => return None,
        })
    }
}

/// What a MAD is about (IBA 13.4.8 and 15.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attribute(pub u16);

impl Attribute {
    /// What the SA is and where it wants requests.
    pub const CLASS_PORT_INFO: Attribute = Attribute(0x0001);
    /// Something happened.
    pub const NOTICE: Attribute = Attribute(0x0002);
    /// A subscription.
    pub const INFORM_INFO: Attribute = Attribute(0x0003);
    /// Membership of a multicast group.
    pub const MC_MEMBER_RECORD: Attribute = Attribute(0x0038);
    /// A subscription as the SA's table has it.
    pub const INFORM_INFO_RECORD: Attribute = Attribute(0x00F3);

    /// Its name in the specification.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Attribute::CLASS_PORT_INFO => "ClassPortInfo",
            Attribute::NOTICE => "Notice",
            Attribute::INFORM_INFO => "InformInfo",
            Attribute::MC_MEMBER_RECORD => "MCMemberRecord",
            Attribute::INFORM_INFO_RECORD => "InformInfoRecord",
            _ => return None,
        })
    }
}

/// How a request went (IBA 13.4.7 for the low byte, 15.2.3 for the high one, which is the SA's own).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Status(pub u16);

impl Status {
    /// Done.
    pub const OK: Status = Status(0);
    /// Busy; ask again.
    pub const BUSY: Status = Status(0x0001);
    /// Ask the one that ClassPortInfo names.
    pub const REDIRECT: Status = Status(0x0002);
    /// The class does not exist or not in that version.
    pub const BAD_VERSION: Status = Status(0x0004);
    /// The class has no such method.
    pub const BAD_METHOD: Status = Status(0x0008);
    /// The attribute has no such method. OpenSM: Get and Delete of InformInfo.
    pub const BAD_METHOD_ATTRIBUTE: Status = Status(0x000C);
    /// A field or the modifier has a value that is not allowed.
    pub const BAD_FIELD: Status = Status(0x001C);
    /// The SA has no room.
    pub const NO_RESOURCES: Status = Status(0x0100);
    /// The request is not valid. OpenSM: an unknown GID or LID, a security trap without trust, and also "you are
    /// not subscribed so".
    pub const REQ_INVALID: Status = Status(0x0200);
    /// No such record.
    pub const NO_RECORDS: Status = Status(0x0300);
    /// More than one record, and one was asked for.
    pub const TOO_MANY_RECORDS: Status = Status(0x0400);
    /// The GID is none of a port in the subnet.
    pub const INVALID_GID: Status = Status(0x0500);
    /// Too few components were named.
    pub const INSUFFICIENT_COMPONENTS: Status = Status(0x0600);
    /// The request was refused.
    pub const DENIED: Status = Status(0x0700);
    /// The SA asks for another priority.
    pub const PRIORITY_SUGGESTED: Status = Status(0x0800);

    /// Whether the request was done.
    pub fn is_ok(self) -> bool {
        self == Status::OK
    }

    /// Whether the same request may succeed a moment later.
    pub fn is_temporary(self) -> bool {
        self.0 & Status::BUSY.0 != 0 || self.0 & 0xFF00 == Status::NO_RESOURCES.0
    }

    /// What it means.
    pub fn text(self) -> &'static str {
        if self.is_ok() {
            return "ok";
        }
        match self.0 & 0xFF00 {
            0 => match self.0 {
                s if s & Status::BUSY.0 != 0 => "busy",
                s if s & Status::REDIRECT.0 != 0 => "redirected",
                s => match s & 0x1C {
                    0x04 => "class or version not supported",
                    0x08 => "method not supported",
                    0x0C => "method not supported for this attribute",
                    0x1C => "invalid value in a field or in the attribute modifier",
                    _ => "unknown status",
                },
            },
            0x0100 => "SA out of resources",
            0x0200 => "invalid request, or no such subscription",
            0x0300 => "no such record",
            0x0400 => "more than one record",
            0x0500 => "invalid requester GID",
            0x0600 => "too few components",
            0x0700 => "denied",
            0x0800 => "another priority suggested",
            _ => "unknown SA status",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x} ({})", self.0, self.text())
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "method 0x{:02x}", self.0),
        }
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "attribute 0x{:04x}", self.0),
        }
    }
}

impl fmt::Debug for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
