/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * libibv_sa: functions of its own, the notices of the subnet administrator (SA) among them. All functions of
 * libibverbs come with <infiniband/verbs.h>. Made by cbindgen; do not edit.
 */

#ifndef INFINIBAND_IBV_SA_H
#define INFINIBAND_IBV_SA_H


#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number of 16 bits in network order, as a constant expression. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define IBV_SA_BE16(number) (number)
#else
#define IBV_SA_BE16(number) ((((number) & 0xff) << 8) | (((number) >> 8) & 0xff))
#endif

/**
 * Traps, in network order (IBA volume 1, 14.2.5.1). Other numbers exist and may be used as they are.
 */
enum ibv_sa_sm_trap {
	/** A port can be reached again, or is new. Issued by the SM. */
	IBV_SA_SM_TRAP_GID_IN_SERVICE = IBV_SA_BE16(64),
	/** A port can be reached no more. Issued by the SM. */
	IBV_SA_SM_TRAP_GID_OUT_OF_SERVICE = IBV_SA_BE16(65),
	/** A multicast group exists. Issued by the SM. */
	IBV_SA_SM_TRAP_CREATE_MC_GROUP = IBV_SA_BE16(66),
	/** A multicast group is gone. Issued by the SM. */
	IBV_SA_SM_TRAP_DELETE_MC_GROUP = IBV_SA_BE16(67),
	/** A path is not valid any more. OpenSM does not issue it. */
	IBV_SA_SM_TRAP_PATH_UNAVAILABLE = IBV_SA_BE16(68),
	/** A path has to be asked for anew. OpenSM does not issue it. */
	IBV_SA_SM_TRAP_PATH_CHANGED = IBV_SA_BE16(69),
	/** A link of a switch went up or down. */
	IBV_SA_SM_TRAP_PORT_CHANGE_STATE = IBV_SA_BE16(128),
	/** Threshold of local link integrity reached. OpenSM forwards none of 129 to 131. */
	IBV_SA_SM_TRAP_LINK_INTEGRITY = IBV_SA_BE16(129),
	/** Threshold of excessive buffer overrun reached. */
	IBV_SA_SM_TRAP_EXCESSIVE_BUFFER_OVERRUN = IBV_SA_BE16(130),
	/** Flow control update watchdog expired. */
	IBV_SA_SM_TRAP_FLOW_CONTROL_UPDATE_EXPIRED = IBV_SA_BE16(131),
	/** Capability mask, node description, link settings or SM priority of a port changed. */
	IBV_SA_SM_TRAP_CAPABILITY_CHANGED = IBV_SA_BE16(144),
	/** System image GUID of a port changed. */
	IBV_SA_SM_TRAP_SYSTEM_IMAGE_GUID_CHANGED = IBV_SA_BE16(145),
	/** A management datagram with a wrong M_Key. 256 to 259: administrators only, unless ibv-sa-policy(5) says otherwise. */
	IBV_SA_SM_TRAP_BAD_M_KEY = IBV_SA_BE16(256),
	/** A packet with a wrong P_Key. */
	IBV_SA_SM_TRAP_BAD_P_KEY = IBV_SA_BE16(257),
	/** A packet with a wrong Q_Key. */
	IBV_SA_SM_TRAP_BAD_Q_KEY = IBV_SA_BE16(258),
	/** A packet with a wrong P_Key, seen by a switch. */
	IBV_SA_SM_TRAP_BAD_P_KEY_AT_SWITCH = IBV_SA_BE16(259),
	/** In a registration: all, vendors' notices included. */
	IBV_SA_SM_TRAP_ALL = IBV_SA_BE16(0xffff)
};

/**
 * What attr_id of an event can be, in network order.
 */
enum ibv_sa_attr_id {
	/** A notice; attr points at its 80 bytes. With status -EOVERFLOW: notices were lost. */
	IBV_SA_ATTR_NOTICE = IBV_SA_BE16(0x0002),
	/** What became of a registration; attr points at its InformInfo, 36 bytes. */
	IBV_SA_ATTR_INFORM_INFO = IBV_SA_BE16(0x0003)
};

/**
 * A channel on which events arrive. Made by ibv_sa_create_event_channel(); a private part follows.
 */
struct ibv_sa_event_channel {
	/** For poll(2), select(2), epoll(7), and for O_NONBLOCK by fcntl(2); not to be read, written or closed. */
	int fd;
};

/**
 * A registration. Made by ibv_sa_register_inform_info() and ibv_sa_register_inform_info_ex().
 */
struct ibv_sa_id;

/**
 * An event, valid until ibv_sa_ack_event().
 *
 * | attr_id                 | status     | attr                    | attr_count               |
 * |-------------------------|------------|-------------------------|--------------------------|
 * | IBV_SA_ATTR_INFORM_INFO | 0          | InformInfo, wire order  | 1: registration active   |
 * | IBV_SA_ATTR_INFORM_INFO | below 0    | InformInfo, wire order  | 1: registration lost     |
 * | IBV_SA_ATTR_NOTICE      | 0          | Notice, wire order      | 1                        |
 * | IBV_SA_ATTR_NOTICE      | -EOVERFLOW | NULL                    | notices that were lost   |
 */
struct ibv_sa_event {
	/** As given when the registration was made. */
	void *context;
	/**
	 * 0, or a negative errno. Of a registration: -ENETRESET lost (the SM changed or asked for it, or the daemon ended),
	 * -ENETDOWN the port is down, -ETIMEDOUT no answer from the SA, -EACCES not allowed, -EINVAL the SA takes no such
	 * subscription, -EBUSY too many, or another program has the port, -ENODEV no such device or port, -EOPNOTSUPP no
	 * InfiniBand port. Free the registration and make it anew; with IBV_SA_AUTO_REREGISTER that is not needed after
	 * -ENETRESET, -ENETDOWN, -ETIMEDOUT and -EBUSY, and after -ENODEV unless it is the first status: a 0 follows as
	 * soon as it is possible. After each 0, read anew what is cached. The same status is not told twice in a row.
	 */
	int status;
	/** Attributes at attr; or how many notices were lost. */
	int attr_count;
	/** Bytes of an attribute. */
	int attr_size;
	/** Bytes from one attribute to the next, a multiple of 8. */
	int attr_offset;
	/** One of enum ibv_sa_attr_id, in network order. */
	__be16 attr_id;
	/** The attribute in wire order, aligned to 8 bytes; belongs to the event. */
	void *attr;
};

/**
 * Which members of struct ibv_sa_inform_filter count.
 */
enum ibv_sa_inform_mask {
	/** gid: of the issuer. lid_begin and lid_end do not count beside it. */
	IBV_SA_INFORM_GID = 1 << 0,
	/** lid_begin and lid_end: of the issuer. */
	IBV_SA_INFORM_LIDS = 1 << 1,
	/** is_generic. */
	IBV_SA_INFORM_IS_GENERIC = 1 << 2,
	/** type. */
	IBV_SA_INFORM_TYPE = 1 << 3,
	/** trap_number. A vendor's device id too, unless is_generic counts as well. */
	IBV_SA_INFORM_TRAP = 1 << 4,
	/** producer. */
	IBV_SA_INFORM_PRODUCER = 1 << 5,
	/** subject_gid: what the notice is about; no SA filters by it, the daemon does. Not with the next. */
	IBV_SA_INFORM_SUBJECT_GID = 1 << 6,
	/** subject_lid: what the notice is about. */
	IBV_SA_INFORM_SUBJECT_LID = 1 << 7
};

/**
 * Flags of struct ibv_sa_inform_filter.
 */
enum ibv_sa_inform_flags {
	/**
	 * After a loss the registration is made again without the program, however often that has to be tried; an event with
	 * status 0 tells when. Only -EACCES, -EINVAL and -EOPNOTSUPP end it, and -ENODEV as its first status.
	 */
	IBV_SA_AUTO_REREGISTER = 1 << 0
};

/**
 * What a registration wants: all components that comp_mask names have to match. Zero it first (= {0}).
 *
 * Members that comp_mask does not name are not looked at. Traps 64 to 67 are issued by the SM: to hear of one port, or
 * one group, use subject_gid, not gid.
 */
struct ibv_sa_inform_filter {
	/** Bits of enum ibv_sa_inform_mask. 0: everything. */
	uint32_t comp_mask;
	/** Bits of enum ibv_sa_inform_flags. */
	uint32_t flags;
	/** Name of the device, where the call gets no device; else NULL. At most 64 bytes. */
	const char *device_name;
	/** GID of the issuer, in network order. */
	union ibv_gid gid;
	/** GID that the notice is about, in network order: the port or group of traps 64 to 67. */
	union ibv_gid subject_gid;
	/** First LID of the issuer, in host order; 0xffff for all. */
	uint16_t lid_begin;
	/** Last LID of the issuer, in host order; 0 for lid_begin alone. */
	uint16_t lid_end;
	/** LID that the notice is about, in host order. */
	uint16_t subject_lid;
	/** Notice type, in host order: 0 fatal, 1 urgent, 2 security, 3 subnet management, 4 informational; 0xffff all. */
	uint16_t type;
	/** Trap number, or device id of a vendor's notice, in network order; 0xffff for all. */
	__be16 trap_number;
	/** 1: generic notices; 0: vendors'. */
	uint8_t is_generic;
	/** 0. */
	uint8_t reserved;
	/** Producer type (1 CA, 2 switch, 3 router, 4 class manager) or vendor id, 24 bits in host order; 0xffffff all. */
	uint32_t producer;
};

#ifdef __cplusplus
}
#endif


#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, for example "0.1.0".
 *
 * Returns a string that belongs to the library and lives as long as the process. Never fails.
 */
const char *ibv_sa_version(void);

/**
 * Makes a channel and connects it with the daemon, for which it waits up to 5 s.
 *
 * Needs a running daemon (`ibv-sa daemon`) at the socket: see `IBV_SA_SOCKET` in ibv_sa(7).
 *
 * Returns the channel, to be given back with ibv_sa_destroy_event_channel(), or NULL with errno:
 * ENOENT, ECONNREFUSED: no daemon (one line on stderr says how to start it);
 * EACCES: the socket may not be used, or belongs to another user who is not root;
 * or the daemon's policy has nothing for this user, see ibv-sa-policy(5);
 * ETIMEDOUT: the daemon does not answer; EPROTO, EPROTONOSUPPORT: it is none, or of another version;
 * EBUSY: it has too many clients of this user, or is ending; ECONNRESET: it has ended without a word;
 * EMFILE, ENFILE: no descriptors; ENOMEM: no memory.
 */
struct ibv_sa_event_channel *ibv_sa_create_event_channel(void);

/**
 * Destroys a channel and all its registrations. NULL and what is no channel is left alone.
 *
 * Waits until every event that was got from it is acknowledged; after IBV_SA_HANG_SECS a line on stderr says whose
 * event it waits for. A thread that waits in ibv_sa_get_event() comes back with EBADF. Events that nobody got are
 * dropped. Needs no daemon. Not a cancellation point.
 *
 * @param channel  from ibv_sa_create_event_channel()
 */
void ibv_sa_destroy_event_channel(struct ibv_sa_event_channel *channel);

/**
 * Registers for the notices of one trap, or of all, that arrive at a port.
 *
 * Returns at once. What becomes of the registration is told by an event with attr_id IBV_SA_ATTR_INFORM_INFO, context,
 * and a status: 0 when the SA has the subscription, otherwise a negative errno (see struct ibv_sa_event). It comes
 * before the first notice, and may reach another thread before this call has returned. Nothing is replayed: after each
 * status 0, read anew what is cached. The same trap may be registered more than once; each registration gets its own
 * events.
 *
 * @param channel      gets the events
 * @param device       an open device; it may be closed while the registration lives
 * @param port_num     port of the device, from 1
 * @param trap_number  one of IBV_SA_SM_TRAP_*, or another trap number, in network order
 * @param context      comes back in each event
 * @param id           where the registration goes, which is given back with ibv_sa_free_id()
 *
 * Returns 0, or -1 with errno and *id as it was:
 * EINVAL: NULL, no channel, or no such port; EBADF: the channel was destroyed, or is the parent's;
 * EOPNOTSUPP: the port's link layer is Ethernet, which has no SA; ENOENT, ECONNREFUSED: the daemon is gone;
 * EIO and others: the device could not be asked; ENOMEM: no memory.
 */
int ibv_sa_register_inform_info(struct ibv_sa_event_channel *channel,
                                struct ibv_context *device,
                                uint8_t port_num,
                                __be16 trap_number,
                                void *context,
                                struct ibv_sa_id **id);

/**
 * Registers for the notices that a filter describes.
 *
 * As ibv_sa_register_inform_info(), and beyond it: the SA is asked for what it can filter, the daemon compares the
 * rest. Without any component all notices match.
 *
 * @param channel   gets the events
 * @param device    an open device, or NULL for the one that filter->device_name names
 * @param port_num  port of the device, from 1
 * @param filter    which notices; not used after the call
 * @param context   comes back in each event
 * @param id        where the registration goes, which is given back with ibv_sa_free_id()
 *
 * Returns 0, or -1 with errno as ibv_sa_register_inform_info() does; EINVAL also for unknown bits, two subjects, a
 * filter that nothing can match, a bad name, and a name beside a device. A device that is named is not looked for here:
 * -ENODEV or -EOPNOTSUPP is then the status of the event.
 */
int ibv_sa_register_inform_info_ex(struct ibv_sa_event_channel *channel,
                                   struct ibv_context *device,
                                   uint8_t port_num,
                                   const struct ibv_sa_inform_filter *filter,
                                   void *context,
                                   struct ibv_sa_id **id);

/**
 * Gets the next event of a channel.
 *
 * Waits until there is one, unless channel->fd has O_NONBLOCK (fcntl(2), F_SETFL), which is looked at in each call.
 * channel->fd becomes readable (poll(2), select(2), epoll(7) in both modes) when there may be an event; it may turn out
 * that there is none. Several threads may get events of one channel; each event goes to one of them. A cancellation
 * point; a signal whose handler ran interrupts the wait, with SA_RESTART too.
 *
 * @param channel  from ibv_sa_create_event_channel()
 * @param event    where its address goes; it is valid, and what attr points at, until ibv_sa_ack_event()
 *
 * Returns 0, or -1 with errno:
 * EAGAIN: none there, and the descriptor has O_NONBLOCK; EINTR: a signal was handled;
 * EBADF: the channel was destroyed, or is the parent's; EINVAL: NULL or no channel; ENOMEM: no memory.
 */
int ibv_sa_get_event(struct ibv_sa_event_channel *channel,
                     struct ibv_sa_event **event);

/**
 * Gives an event back, after which neither it nor what attr points at may be used.
 *
 * From any thread, in any order, each event once.
 *
 * @param event  from ibv_sa_get_event()
 *
 * Returns 0, or -1 with errno EINVAL: no event, or acknowledged before (nothing happens); EBADF: the event was
 * got before fork(2), by the parent.
 */
int ibv_sa_ack_event(struct ibv_sa_event *event);

/**
 * Ends a registration.
 *
 * Returns when every event of it that was got is acknowledged; after IBV_SA_HANG_SECS a line on stderr says whose
 * event it waits for. Its events that nobody got are dropped. No event of it comes afterwards, and the SA is asked to
 * end the subscription when no other program shares it. Works without the daemon. Not a cancellation point, and not
 * interrupted by signals.
 *
 * @param id  from ibv_sa_register_inform_info() or ibv_sa_register_inform_info_ex()
 *
 * Returns 0, or -1 with errno EINVAL: no registration, or freed before; EBADF: made before fork(2), by the parent.
 */
int ibv_sa_free_id(struct ibv_sa_id *id);

/**
 * The trap number of a generic notice.
 *
 * @param event  an event with attr_id IBV_SA_ATTR_NOTICE
 *
 * Returns the number in host order, or -1 with errno EINVAL: no notice, or a vendor's.
 */
int ibv_sa_notice_trap(const struct ibv_sa_event *event);

/**
 * The LID that a notice is about: of the port, or of the switch, that changed; where the packet with a wrong key came
 * from. Not of the issuer.
 *
 * @param event  an event with attr_id IBV_SA_ATTR_NOTICE
 *
 * Returns the LID in host order, or -1 with errno: EINVAL: no notice; ENODATA: it names no LID (traps 64 to 67).
 */
int ibv_sa_notice_lid(const struct ibv_sa_event *event);

/**
 * The GID that a notice is about: the port or the multicast group of traps 64 to 67, where the packet with a wrong key
 * came from; for what a port says of itself, its own.
 *
 * @param event  an event with attr_id IBV_SA_ATTR_NOTICE
 * @param gid    where it goes, in network order
 *
 * Returns 0, or -1 with errno: EINVAL: NULL, or no notice; ENODATA: it names no GID.
 */
int ibv_sa_notice_gid(const struct ibv_sa_event *event,
                      union ibv_gid *gid);

/**
 * Who issued a notice: for traps 64 to 67 the SM, otherwise the port that sent the trap.
 *
 * @param event  an event with attr_id IBV_SA_ATTR_NOTICE
 * @param gid    where its GID goes, in network order; or NULL
 * @param lid    where its LID goes, in host order; or NULL
 *
 * Returns 0, or -1 with errno EINVAL: no notice.
 */
int ibv_sa_notice_issuer(const struct ibv_sa_event *event, union ibv_gid *gid, uint16_t *lid);

/**
 * The name of a trap, for example "GID in service".
 *
 * @param trap_number  in network order
 *
 * Returns a string that belongs to the library, "unknown trap" for a number without a name. Never fails.
 */
const char *ibv_sa_trap_str(__be16 trap_number);

/**
 * What an event says, for example "GID in service", "registration active", "notices lost".
 *
 * @param event  an event, or a copy of one, whose attr is readable
 *
 * Returns a string that belongs to the library, "no event" for NULL. Never fails.
 */
const char *ibv_sa_event_str(const struct ibv_sa_event *event);

/**
 * What the status of an event means, for example "lost: the SM changed, or the daemon; register again".
 *
 * @param status  the member of struct ibv_sa_event: 0 or a negative errno
 *
 * Returns a string that belongs to the library, "unknown status" for a number that has no meaning. Never fails.
 */
const char *ibv_sa_status_str(int status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* INFINIBAND_IBV_SA_H */
