//! Trap numbers with names.

use core::fmt;

/// The number of a generic notice (IBA 14.2.5.1, table "Traps"). Others than the named ones exist and pass through.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Trap(pub u16);

impl Trap {
    /// A port can be reached again, or is new. Made by the SM.
    pub const GID_IN_SERVICE: Trap = Trap(64);
    /// A port can be reached no more. Made by the SM.
    pub const GID_OUT_OF_SERVICE: Trap = Trap(65);
    /// A multicast group exists. Made by the SM.
    pub const MC_GROUP_CREATED: Trap = Trap(66);
    /// A multicast group is gone. Made by the SM.
    pub const MC_GROUP_DELETED: Trap = Trap(67);
    /// A path is not valid any more. Made by the SM; OpenSM does not.
    pub const PATH_UNAVAILABLE: Trap = Trap(68);
    /// A path has to be asked for anew. Made by the SM; OpenSM does not.
    pub const PATH_CHANGED: Trap = Trap(69);
    /// A link of a switch went up or down.
    pub const PORT_STATE_CHANGED: Trap = Trap(128);
    /// Local link integrity threshold reached. OpenSM forwards none of 129-131.
    pub const LINK_INTEGRITY: Trap = Trap(129);
    /// Excessive buffer overrun threshold reached.
    pub const BUFFER_OVERRUN: Trap = Trap(130);
    /// Flow control update watchdog timer expired.
    pub const FLOW_CONTROL_WATCHDOG: Trap = Trap(131);
    /// Capability mask, node description or link settings of a port changed, or the priority of its SM.
    pub const CAPABILITY_CHANGED: Trap = Trap(144);
    /// The system image GUID of a port changed.
    pub const SYSTEM_IMAGE_GUID_CHANGED: Trap = Trap(145);
    /// A management datagram with a wrong M_Key.
    pub const BAD_M_KEY: Trap = Trap(256);
    /// A packet with a wrong P_Key.
    pub const BAD_P_KEY: Trap = Trap(257);
    /// A packet with a wrong Q_Key.
    pub const BAD_Q_KEY: Trap = Trap(258);
    /// A packet with a wrong P_Key, seen by a switch.
    pub const BAD_P_KEY_AT_SWITCH: Trap = Trap(259);
    /// In a subscription: all.
    pub const ALL: Trap = Trap(0xFFFF);

    /// The traps that the SM makes itself, about ports, groups and paths.
    pub fn is_about_gid(self) -> bool {
        (64..=67).contains(&self.0)
    }

    /// Traps that tell keys and who used them. An SA refuses a subscription that names one without trust; under
    /// [`Trap::ALL`] OpenSM sends them to anybody.
    pub fn is_security(self) -> bool {
        (256..=259).contains(&self.0)
    }

    /// What happened.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Trap::GID_IN_SERVICE => "GID in service",
            Trap::GID_OUT_OF_SERVICE => "GID out of service",
            Trap::MC_GROUP_CREATED => "multicast group created",
            Trap::MC_GROUP_DELETED => "multicast group deleted",
            Trap::PATH_UNAVAILABLE => "path unavailable",
            Trap::PATH_CHANGED => "path changed",
            Trap::PORT_STATE_CHANGED => "link state changed",
            Trap::LINK_INTEGRITY => "local link integrity threshold reached",
            Trap::BUFFER_OVERRUN => "excessive buffer overrun threshold reached",
            Trap::FLOW_CONTROL_WATCHDOG => "flow control update watchdog expired",
            Trap::CAPABILITY_CHANGED => "port capabilities changed",
            Trap::SYSTEM_IMAGE_GUID_CHANGED => "system image GUID changed",
            Trap::BAD_M_KEY => "bad M_Key",
            Trap::BAD_P_KEY => "bad P_Key",
            Trap::BAD_Q_KEY => "bad Q_Key",
            Trap::BAD_P_KEY_AT_SWITCH => "bad P_Key at a switch",
            Trap::ALL => "all traps",
            _ => return None,
        })
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trap {}", self.0)?;
        match self.name() {
            Some(name) => write!(f, " {name}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
