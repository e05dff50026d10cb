//! A whole MAD, or a table longer than one, and what it says.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::notice::Notice;
use super::{
    Attribute, ClassPortInfo, HEADERS_SIZE, Headers, InformInfo, InformInfoRecord, MAD_SIZE, McMemberRecord,
    Method, SA_CLASS, SA_CLASS_VERSION, Status,
};

/// The half of a transaction id that is the same at both ends; the other half is the kernel's (or simulator's).
pub fn tid_low(tid: u64) -> u32 {
    tid as u32
}

/// Bytes that are no MAD of the SA, or one that says less than its attribute has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadError {
    /// Shorter than its headers or its attribute.
    Short {
        /// Bytes there have to be.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// Base version is not 1.
    BaseVersion(u8),
    /// Not the SA's class.
    Class(u8),
    /// Not the version of the SA's class that everything here is about.
    ClassVersion(u8),
    /// Records overlap: their distance, in bytes, is below the size of one.
    RecordDistance(usize),
    /// The attribute is another one than was to be read.
    Attribute {
        /// The one expected.
        want: Attribute,
        /// The one found.
        have: Attribute,
    },
}

impl fmt::Display for MadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MadError::Short { need, have } => write!(f, "MAD of {have} bytes, needs {need}"),
            MadError::BaseVersion(version) => write!(f, "MAD base version {version} is not 1"),
            MadError::Class(class) => write!(f, "MAD class 0x{class:02x} is not the SA's"),
            MadError::ClassVersion(version) => {
                write!(f, "SA class version {version} is not {SA_CLASS_VERSION}")
            }
            MadError::RecordDistance(bytes) => write!(f, "SA table with records {bytes} bytes apart"),
            MadError::Attribute { want, have } => write!(f, "MAD has {have} instead of {want}"),
        }
    }
}

impl core::error::Error for MadError {}

/// A MAD to send: 256 bytes.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SaMad {
    /// The three headers.
    pub headers: Headers,
    /// The attribute, then zeros.
    pub data: [u8; MAD_SIZE - HEADERS_SIZE],
}

impl SaMad {
    /// Headers and attribute; what does not fit is left out.
    pub fn new(headers: Headers, attribute: &[u8]) -> SaMad {
        let mut data = [0; MAD_SIZE - HEADERS_SIZE];
        for (to, from) in data.iter_mut().zip(attribute) {
            *to = *from;
        }
        SaMad { headers, data }
    }

    /// Its transaction id.
    pub fn tid(&self) -> u64 {
        self.headers.mad.tid.get()
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        IntoBytes::as_bytes(self)
    }
}

impl fmt::Debug for SaMad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mad = &self.headers.mad;
        write!(f, "{} {} tid 0x{:x} status {}", mad.method, mad.attribute(), mad.tid.get(), mad.status())
    }
}

/// A MAD that was received: headers that are the SA's, and the rest of it.
#[derive(Clone, Copy, Debug)]
pub struct SaMessage<'a> {
    /// The three headers.
    pub headers: Headers,
    /// Everything behind them.
    pub data: &'a [u8],
}

impl<'a> SaMessage<'a> {
    /// Checks the headers of `bytes`, which must end where the transport says that the MAD ends: what an SA or a
    /// simulator leaves behind that is not defined.
    pub fn parse(bytes: &'a [u8]) -> Result<SaMessage<'a>, MadError> {
        let (headers, data) = Headers::read_from_prefix(bytes)
            .map_err(|_| MadError::Short { need: HEADERS_SIZE, have: bytes.len() })?;
        let mad = &headers.mad;
        if mad.base_version != 1 {
            return Err(MadError::BaseVersion(mad.base_version));
        }
        if mad.class != SA_CLASS {
            return Err(MadError::Class(mad.class));
        }
        if mad.class_version != SA_CLASS_VERSION {
            return Err(MadError::ClassVersion(mad.class_version));
        }
        Ok(SaMessage { headers, data })
    }

    /// Its transaction id.
    pub fn tid(&self) -> u64 {
        self.headers.mad.tid.get()
    }

    fn attribute<T: FromBytes>(&self, want: Attribute) -> Result<T, MadError> {
        let have = self.headers.mad.attribute();
        if have != want {
            return Err(MadError::Attribute { want, have });
        }
        T::read_from_prefix(self.data).map(|(value, _)| value).map_err(|_| MadError::Short {
            need: HEADERS_SIZE + size_of::<T>(),
            have: HEADERS_SIZE + self.data.len(),
        })
    }

    /// The attribute, if it is a Notice, as it came: see [`Notice::masked`].
    pub fn raw_notice(&self) -> Result<Notice, MadError> {
        self.attribute(Attribute::NOTICE)
    }

    /// The attribute, if it is an InformInfo.
    pub fn inform_info(&self) -> Result<InformInfo, MadError> {
        self.attribute(Attribute::INFORM_INFO)
    }

    /// The attribute, if it is a ClassPortInfo.
    pub fn class_port_info(&self) -> Result<ClassPortInfo, MadError> {
        self.attribute(Attribute::CLASS_PORT_INFO)
    }

    /// The attribute, if it is an MCMemberRecord.
    pub fn mc_member_record(&self) -> Result<McMemberRecord, MadError> {
        self.attribute(Attribute::MC_MEMBER_RECORD)
    }

    /// The attribute, if it is an InformInfoRecord: the pattern of a query, or the answer to a Get.
    pub fn inform_info_record(&self) -> Result<InformInfoRecord, MadError> {
        self.attribute(Attribute::INFORM_INFO_RECORD)
    }

    /// The records of the table, if it is one of InformInfoRecords.
    pub fn inform_info_records(&self) -> Result<Records<'a>, MadError> {
        let (want, have) = (Attribute::INFORM_INFO_RECORD, self.headers.mad.attribute());
        if have != want {
            return Err(MadError::Attribute { want, have });
        }
        Records::new(usize::from(self.headers.sa.offset.get()) * 8, self.data)
    }

    /// What it tells a subscriber. Anything but a report or the answer to one of [`super::request`]'s requests is
    /// [`Received::Other`].
    pub fn received(&self) -> Result<Received<'a>, MadError> {
        let mad = &self.headers.mad;
        let (tid, status) = (tid_low(self.tid()), mad.status());
        // An answer that says no has no payload: OpenSM sends the request's back, sometimes with the Subscribe field
        // cleared, and its own memory behind.
        Ok(match (mad.method, mad.attribute()) {
            (Method::REPORT, Attribute::NOTICE) => {
                Received::Report(Report { headers: self.headers, raw: self.raw_notice()? })
            }
            (Method::GET_RESP, Attribute::INFORM_INFO) => Received::InformInfo {
                tid,
                status,
                inform: if status.is_ok() { Some(self.inform_info()?) } else { None },
            },
            (Method::GET_TABLE_RESP, Attribute::INFORM_INFO_RECORD) => Received::InformInfoTable {
                tid,
                status,
                records: if status.is_ok() { self.inform_info_records()? } else { Records::EMPTY },
            },
            (Method::GET_RESP, Attribute::CLASS_PORT_INFO) => Received::ClassPortInfo {
                tid,
                status,
                info: if status.is_ok() { Some(self.class_port_info()?) } else { None },
            },
            (method, attribute) => Received::Other { method, attribute, tid, status },
        })
    }
}

/// What a MAD tells a subscriber.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Received<'a> {
    /// Something happened. Answer with [`Report::response`] before anything else, wanted or not.
    Report(Report),
    /// Answer to a subscription or its end.
    InformInfo {
        /// Low half of the request's transaction id.
        tid: u32,
        /// How it went.
        status: Status,
        /// The request as the SA took it; none if it refused.
        inform: Option<InformInfo>,
    },
    /// Subscriptions that the SA has.
    InformInfoTable {
        /// Low half of the request's transaction id.
        tid: u32,
        /// How it went.
        status: Status,
        /// The records; none if it refused.
        records: Records<'a>,
    },
    /// What the SA is.
    ClassPortInfo {
        /// Low half of the request's transaction id.
        tid: u32,
        /// How it went.
        status: Status,
        /// None if it refused.
        info: Option<ClassPortInfo>,
    },
    /// Something else: a request, or an answer to somebody else's.
    Other {
        /// What it asks or answers.
        method: Method,
        /// What it is about.
        attribute: Attribute,
        /// Low half of the transaction id.
        tid: u32,
        /// How it went.
        status: Status,
    },
}

impl Received<'_> {
    /// Parses and reads in one step.
    pub fn decode(bytes: &[u8]) -> Result<Received<'_>, MadError> {
        SaMessage::parse(bytes)?.received()
    }
}

/// A notice that the SA forwarded. Only the answer gets to see the notice's undefined bytes.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// As they came.
    pub headers: Headers,
    raw: Notice,
}

impl Report {
    /// Low half of the transaction id.
    pub fn tid(&self) -> u32 {
        tid_low(self.headers.mad.tid.get())
    }

    /// What happened, without undefined bytes.
    pub fn notice(&self) -> Notice {
        self.raw.masked()
    }

    /// The answer: the same MAD with another method, all 64 bits of the transaction id included. It goes to the LID
    /// and queue pair that the report came from.
    pub fn response(&self) -> SaMad {
        let mut headers = self.headers;
        headers.mad.method = Method::REPORT_RESP;
        SaMad::new(headers, self.raw.as_bytes())
    }

    /// What a repetition of this report has in common with it. An SA repeats an unanswered report with the same id;
    /// after a restart it counts ids from the same start, which is why the notice belongs to the key.
    pub fn key(&self, source_lid: u16) -> ReportKey {
        ReportKey { source_lid, tid: self.tid(), notice: self.notice() }
    }
}

/// Equal for two reports that are the same one sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReportKey {
    /// LID of the SA.
    pub source_lid: u16,
    /// Low half of the transaction id.
    pub tid: u32,
    /// Without its undefined bytes.
    pub notice: Notice,
}

/// The records of a table, in the SA's order: OpenSM has the newest subscription first.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    distance: usize,
    data: &'a [u8],
}

impl<'a> Records<'a> {
    /// None.
    pub const EMPTY: Records<'static> = Records { distance: 0, data: &[] };

    fn new(distance: usize, data: &'a [u8]) -> Result<Records<'a>, MadError> {
        match distance {
            0 => Ok(Records::EMPTY),
            d if d < InformInfoRecord::SIZE => Err(MadError::RecordDistance(d)),
            distance => Ok(Records { distance, data }),
        }
    }
}

impl Iterator for Records<'_> {
    type Item = InformInfoRecord;

    /// The next record. One without a subscriber is the zeros behind a short table in a MAD of fixed size, and is
    /// passed over; a record that is cut off is not there.
    fn next(&mut self) -> Option<InformInfoRecord> {
        while self.distance != 0 && self.data.len() >= InformInfoRecord::SIZE {
            let mut record = InformInfoRecord::default();
            let whole = size_of::<InformInfoRecord>().min(self.data.len()).min(self.distance);
            record.as_mut_bytes()[..whole].copy_from_slice(&self.data[..whole]);
            self.data = self.data.get(self.distance..).unwrap_or(&[]);
            if !record.subscriber.is_zero() {
                return Some(record);
            }
        }
        None
    }
}
