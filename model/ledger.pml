/* The ledger's records: runs of three kinds, one after the other or side by side, with one lane each. What a later record of a key,
 * an invalidation, a tombstone, an archive and a snapshot do to what the ledger says of a chunk.
 * The takeover is three steps here, and a transaction two; takeover.pml has more of both.
 * Safety: since a chunk's file was last invalidated, the chunk is committed at most once; a run that ends green finds every
 * chunk in the ledger and in the topic. */
#define SHIP 1
#define RESHIP 2
#define ARCHIVE 3
#ifndef KINDS
#define KINDS 12                 /* one digit for each run, the first to announce itself last: 12 = a reship, then a ship */
#endif
#ifndef RUNS
#define RUNS 2
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef OLD
#define OLD 0                    /* 1: a run before these has shipped everything */
#endif
#define G (RUNS + 2)             /* generation 0: none; 1: the run before these */
#define TOMBSTONE 15
#ifdef ARCHIVE_WITHOUT_FENCE
#define FILE (RUNS + 1 - me)     /* names of files differ also when generations do not */
#else
#define FILE mine
#endif

byte latest;                     /* generation */
byte owner;                      /* run + 1 that has the epoch of the id */
bool open_;
byte tag;                        /* its generation */
bool data[CHUNKS], tomb[CHUNKS], mark;
byte first, end_;                /* offset of its first record; end of the log */

byte value[CHUNKS], at[CHUNKS];  /* latest committed record of a chunk's key (generation or TOMBSTONE), its offset; 0: none */
byte marker, marker_at;          /* the archive that the ledger names, by the generation that wrote it */
bool known_inv[G];               /* invalidation of each generation; they have a key each */
byte last_inv;                   /* the latest that was written */
byte archive[G * CHUNKS];        /* the files: generation of each chunk that they hold */
byte copies[CHUNKS * G];         /* committed to the topic, by generation */
byte snap_value[CHUNKS], snap_marker, snap_end; bool snap;
byte faults;
byte k_, h_, v_, first_, sum_;        /* scratch, zero between steps */

#define COPIES(c, g) copies[(c) * G + (g)]
#ifdef LATEST_INVALIDATION_COUNTS
#define SINCE last_inv
#else
#define SINCE h_
#endif
inline highest() { d_step { h_ = G - 1; do :: h_ > 0 && !known_inv[h_] -> h_-- :: else -> break od } }

/* What counts of chunk c: snapshot and tail, the archive beneath. Into v_: its generation; 0: it is missing. */
inline look(c) {
  d_step {
    if :: snap && !(value[c] > 0 && at[c] >= snap_end) -> v_ = snap_value[c]
       :: else -> v_ = value[c] fi;
    if :: snap && !(marker > 0 && marker_at >= snap_end) -> h_ = snap_marker :: else -> h_ = marker fi;
    h_ = (h_ > 0 -> archive[h_ * CHUNKS + c] : 0);
    v_ = (v_ == TOMBSTONE -> 0 : v_);
#ifdef TOPIC_HIDES_ARCHIVE
    v_ = (v_ > 0 -> v_ : h_);
#else
    v_ = (v_ > h_ -> v_ : h_);                                  /* the later of the two; of one key it has the higher generation */
#endif
    highest();
    if :: v_ < SINCE -> v_ = 0 :: else fi;
    h_ = 0
  }
}
/* After each change: at most one copy of each chunk counts. */
inline judge() {
  d_step {
    highest(); v_ = SINCE; h_ = 0; k_ = 0;
    do :: k_ < CHUNKS -> first_ = v_; sum_ = 0;
          do :: first_ < G -> sum_ = sum_ + COPIES(k_, first_); first_++ :: else -> break od;
          assert(sum_ <= 1); k_++
       :: else -> break od;
    k_ = 0; v_ = 0; sum_ = 0; first_ = 0
  }
}

inline new_epoch(who) {
  d_step { owner = who; open_ = false; mark = false; first = 0; tag = 0;
    do :: k_ < CHUNKS -> data[k_] = false; tomb[k_] = false; k_++ :: else -> k_ = 0; break od }
}
inline commit() {
  d_step {
    do :: k_ < CHUNKS ->
          if :: data[k_] -> COPIES(k_, tag)++; value[k_] = tag; at[k_] = first
             :: tomb[k_] -> value[k_] = TOMBSTONE; at[k_] = first
             :: else fi;
          data[k_] = false; tomb[k_] = false; k_++
       :: else -> k_ = 0; break od;
    if :: mark -> marker = tag; marker_at = first :: else fi;
    open_ = false; mark = false; first = 0; tag = 0
  }
  judge()
}
inline begin_(g) { d_step { if :: !open_ -> open_ = true; tag = g; end_++; first = end_ :: else fi } }

proctype Snapshots() {
  byte c;
  atomic {                                                      /* LedgerLog.keep_snapshot; once, beside whoever ships */
    snap = true;
#ifdef SNAPSHOT_PAST_OPEN_TRANSACTION
    snap_end = end_ + 1;
#else
    snap_end = (open_ -> first : end_ + 1);
#endif
    do :: c < CHUNKS -> snap_value[c] = value[c]; c++ :: else -> c = 0; break od;
    snap_marker = marker
  }
}
proctype Compaction() {                                         /* takes tombstones away after delete.retention.ms */
  byte c;
  end:
  do :: atomic { value[0] == TOMBSTONE -> value[0] = 0; at[0] = 0 }
     :: atomic { value[CHUNKS - 1] == TOMBSTONE -> value[CHUNKS - 1] = 0; at[CHUNKS - 1] = 0 } od
}

inline read() { c = 0; do :: c < CHUNKS -> look(c); saw[c] = v_; v_ = 0; c++ :: else -> c = 0; break od }
inline right() {
  if :: latest > mine -> goto stopped
     :: latest == mine -> skip
#ifdef ARCHIVE_NO_BARRIER
     :: latest > mine && kind == ARCHIVE && faults < FAULTS + 1 -> faults++     /* a deposed leader answers */
#endif
  fi
}

proctype Run(byte me; byte kind) {
  byte mine, c; byte saw[CHUNKS]; bool any;
#ifdef ARCHIVE_WITHOUT_FENCE
  if :: kind == ARCHIVE -> atomic { mine = latest } :: else ->
#endif
  atomic { latest++; mine = latest };
  atomic { new_epoch(0) }
#ifdef ARCHIVE_WITHOUT_FENCE
  fi;
#endif
  atomic { read() }
  if :: kind == RESHIP ->
#ifdef INVALIDATION_CHECKED_THEN_WRITTEN
        atomic { right() }                                      /* writing.invalidate: the right, then a plain write */
        atomic { known_inv[mine] = true; last_inv = mine; judge() }
#elif defined(INVALIDATION_WITHOUT_RIGHT)
        atomic { known_inv[mine] = true; last_inv = mine; judge() }
#else
        atomic { new_epoch(me + 1) }                            /* in a transaction of the lane; it is too short here to break */
        atomic { right() }
        atomic { if :: owner != me + 1 -> goto stopped :: else -> known_inv[mine] = true; last_inv = mine; judge() fi }
#endif
        atomic { do :: c < CHUNKS -> saw[c] = 0; c++ :: else -> c = 0; break od }
     :: kind == ARCHIVE ->
        atomic {                                                /* write_archive: the files are complete before the first tombstone */
          if :: snap && !(marker > 0 && marker_at >= snap_end) -> h_ = snap_marker :: else -> h_ = marker fi;
          do :: c < CHUNKS ->
                archive[FILE * CHUNKS + c] = (saw[c] > 0 -> saw[c] : (h_ > 0 -> archive[h_ * CHUNKS + c] : 0));
                any = any || saw[c] > 0; c++
             :: else -> c = 0; break od;
          h_ = 0;
          if :: !any -> goto stopped :: else fi
        }
     :: else fi;
OPEN:
  atomic { new_epoch(me + 1) }
  atomic { right() }
  if :: kind == SHIP || kind == RESHIP -> atomic {              /* settle */
          do :: c < CHUNKS -> look(c); saw[c] = (v_ >= mine -> v_ : saw[c]); v_ = 0; c++ :: else -> c = 0; break od }
     :: else fi;
NEXT:
  if :: kind == ARCHIVE ->
#ifdef MARKER_AFTER_TOMBSTONES
        atomic { if :: owner != me + 1 -> goto stopped :: else -> begin_(FILE);
                       do :: c < CHUNKS -> tomb[c] = (saw[c] > 0); c++ :: else -> c = 0; break od fi }
        atomic { if :: owner != me + 1 -> goto stopped :: else -> commit() fi }
        atomic { if :: owner != me + 1 -> goto stopped :: else -> begin_(FILE); mark = true fi }
#else
        atomic { if :: owner != me + 1 -> goto stopped :: else -> begin_(FILE); mark = true;
                       do :: c < CHUNKS -> tomb[c] = (saw[c] > 0); c++ :: else -> c = 0; break od fi }
#endif
        atomic { if :: owner != me + 1 -> goto stopped :: else -> commit(); goto stopped fi }
     :: else fi;
  atomic { c = 0; do :: c < CHUNKS && saw[c] > 0 -> c++ :: else -> break od;
           if :: c == CHUNKS -> c = 0; goto ended :: else fi }
  if :: faults < FAULTS -> faults++; c = 0; goto REOPEN :: true fi;     /* Transactions.begin: the connection was lost */
  atomic { if :: owner != me + 1 -> goto FAULT :: else -> begin_(mine); data[c] = true fi }
  atomic { if :: owner != me + 1 -> goto FAULT
              :: owner == me + 1 && open_ -> commit(); saw[c] = mine; c = 0
              :: owner == me + 1 && open_ && faults < FAULTS -> faults++; commit(); goto FAULT      /* nobody knows */
           fi }
  goto NEXT;
REOPEN:                                                         /* without asking the ledger which chunks there are */
  atomic { new_epoch(me + 1) }
  atomic { right() }
  goto NEXT;
FAULT:
  c = 0;
  goto OPEN;
ended:
  atomic {
    c = 0;
    do :: c < CHUNKS -> v_ = 0; k_ = 0; do :: k_ < G -> v_ = v_ + COPIES(c, k_); k_++ :: else -> k_ = 0; break od;
          assert(v_ >= 1);                                      /* nothing is lost */
          v_ = 0; c++
       :: else -> c = 0; break od;
#ifndef HIDING_IS_ALLOWED
    if :: latest == mine ->                                     /* nobody who was superseded has hidden anything */
          do :: c < CHUNKS -> look(c); assert(v_ > 0); v_ = 0; c++ :: else -> c = 0; break od
       :: else fi
#endif
  }
stopped:
  atomic { c = 0; mine = 0; any = false; do :: c < CHUNKS -> saw[c] = 0; c++ :: else -> c = 0; break od }
}
init {
  byte r, k;
  atomic {
    latest = OLD;
    if :: OLD == 1 -> do :: r < CHUNKS -> end_++; value[r] = 1; at[r] = end_; COPIES(r, 1) = 1; r++ :: else -> r = 0; break od :: else fi;
#ifdef SNAPSHOT
    run Snapshots(); run Compaction();
#endif
    k = KINDS;
    do :: r < RUNS -> run Run(r, k % 10); k = k / 10; r++ :: else -> r = 0; k = 0; break od
  }
}
