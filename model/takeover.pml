/* Takeover: RUNS runs of one pipeline on one cluster race for LANES transactional ids. Each run announces a generation, fences the
 * lanes of the runs before it, reads the ledger, and ships what is missing of CHUNKS chunks, each lane in a thread of its own.
 * The model takes Kafka as it is promised, at its worst: any process stops anywhere and for any time, the answer to a commit is lost,
 * a copy of EndTxn arrives late, the coordinator aborts a transaction, a deposed leader answers reads with what it had, and the
 * log is compacted. FAULTS bounds how often.
 * Safety: no chunk is committed twice by transactions; a run that ends green finds every chunk in the ledger and in the topic.
 * README.md maps each step to its function and lists the flags that take a rule out. */
#ifndef RUNS
#define RUNS 2
#endif
#ifndef LANES
#define LANES 2
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef WIDE
#define WIDE 255                 /* bit r: run r has LANES lanes; else one */
#endif
#ifndef LOOSE
#define LOOSE 0                  /* bit r: run r ships at least once: no transactions */
#endif
#define MAXG (2 * RUNS)          /* most announcements */
#define HAS(r) ((((WIDE) >> (r)) & 1) -> LANES : 1)
#define IS_LOOSE(r) (((LOOSE) >> (r)) & 1)
#define OWN(r) (IS_LOOSE(r) -> 0 : HAS(r))
#ifdef ONE_LANE                  /* only one lane of a run ships, whichever it is: for three runs */
#define SHIPPING(r) 1
#else
#define SHIPPING(r) HAS(r)
#endif
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* The control partition: generations are numbered by their offsets. */
byte latest;
byte covers[MAXG + 1];           /* lanes that the generation's record covers */
byte gone;                       /* compaction has removed the records of generations up to this one */
#ifndef ONE_KEY
bool removed[MAXG + 1];          /* by a tombstone */
#endif
byte marker[MAXG + 1];           /* "every lane before this generation is fenced", and the lanes of its own + 1; 0: not written */
byte looked[RUNS];               /* latest + 1 when a run that is announcing itself last read the partition; 0: it is not announcing */

/* The coordinator, for each transactional id. */
byte owner[LANES];               /* run + 1 whose producer has the current epoch; 0: a fence has it */
bool open_[LANES];
bool data[LANES * CHUNKS], entry[LANES * CHUNKS];   /* in the open transaction */
bool late[LANES];                /* a copy of EndTxn(commit) of the current epoch is on its way; one of an earlier epoch is refused */

/* What is committed. */
byte visible[CHUNKS];            /* copies that transactions committed */
bool loose[CHUNKS];              /* sent by a run that ships at least once */
bool known[CHUNKS];              /* the ledger's entry */

/* What a run's lanes share. */
byte gen[RUNS], ended[RUNS];
bool superseded[RUNS];
bool there[RUNS * CHUNKS], taken[RUNS * CHUNKS];
byte faults, started;
byte k_, g_;                     /* scratch, zero between steps */

#define D(l, c) data[(l) * CHUNKS + (c)]
#define E(l, c) entry[(l) * CHUNKS + (c)]
#define THERE(r, c) there[(r) * CHUNKS + (c)]
#define TAKEN(r, c) taken[(r) * CHUNKS + (c)]

#ifdef LOSS_ONLY
#define ONCE(c) skip
#else
#define ONCE(c) assert(visible[c] <= 1)
#endif

inline drop(l) {
  d_step { open_[l] = false;
  do :: k_ < CHUNKS -> D(l, k_) = false; E(l, k_) = false; k_++ :: else -> k_ = 0; break od }
}
inline commit(l) {
  d_step { open_[l] = false;
  do :: k_ < CHUNKS ->
        visible[k_] = visible[k_] + D(l, k_); known[k_] = known[k_] || E(l, k_);
        D(l, k_) = false; E(l, k_) = false; ONCE(k_); k_++
     :: else -> k_ = 0; break od }
}
inline new_epoch(l, who) { if :: open_[l] -> drop(l) :: else fi; owner[l] = who; late[l] = false }

#ifndef ONE_KEY
#define PRESENT(g) !removed[g]
#else
#define PRESENT(g) ((g) > gone)
#endif
/* Lanes before generation `upper` that may be open: Control.to_fence. */
inline to_fence(upper, found) {
  d_step { found = 0; g_ = upper;
  do :: g_ > 1 -> g_--; if :: marker[g_] > 0 -> found = MAX(found, marker[g_] - 1); break
                           :: marker[g_] == 0 && PRESENT(g_) && covers[g_] > found -> found = covers[g_]
                           :: else fi
     :: g_ <= 1 -> break od;
  g_ = 0 }
}
#define MAY_BE_STALE (faults < FAULTS)
#ifdef READ_TO_FIRST_OPEN
#define HIDDEN_BY_OPEN (open_[0] || open_[LANES - 1])
#else
#define HIDDEN_BY_OPEN false
#endif
inline see(r, c) {
  if :: THERE(r, c) = THERE(r, c) || known[c]
#ifdef NO_BARRIER_CHUNKS
     :: MAY_BE_STALE && known[c] && !THERE(r, c) -> faults++
#endif
     :: HIDDEN_BY_OPEN && known[c] && !THERE(r, c) -> skip
  fi
}
inline read_ledger(r) { c = 0; do :: c < CHUNKS -> see(r, c); c++ :: else -> c = 0; break od }

proctype Network() {
  byte l;
  end:
  do :: atomic { late[0] -> if :: open_[0] -> commit(0) :: else fi; late[0] = false }
     :: atomic { open_[0] && faults < FAULTS -> faults++; new_epoch(0, 0) }       /* transaction.timeout.ms is over */
#if LANES > 1
     :: atomic { late[1] -> if :: open_[1] -> commit(1) :: else fi; late[1] = false }
     :: atomic { open_[1] && faults < FAULTS -> faults++; new_epoch(1, 0) }
#endif
  od
}

#ifdef COMPACTION
/* The cleaner goes from the log's beginning to some record, and keeps the latest record of a key up to there. min.compaction.lag.ms:
 * it does not come to a record that was written after a run that is announcing itself last read the partition. */
#ifdef COMPACTION_AT_ONCE
#define YOUNG(r) false
#else
#define YOUNG(r) (looked[r] > 0 && gone + 2 >= looked[r])
#endif
proctype Compaction() {
  end:
  do :: atomic { gone + 1 < latest && !YOUNG(0) && !YOUNG(RUNS - 1) && !YOUNG(RUNS / 2) -> gone++ } od
}
#endif

proctype Lane(byte r; byte l) {
  byte c, seen; bool lost, doubt, has;
OPEN:
  atomic {                                                     /* Transactions.open */
    if :: IS_LOOSE(r) -> skip :: else -> new_epoch(l, r + 1) fi;
    lost = false
  }
#ifndef NO_RIGHT
  atomic {                                                     /* RightToShip.confirm */
#ifdef NO_BARRIER_RIGHT
    if :: seen = latest :: MAY_BE_STALE && latest > gen[r] -> faults++; seen = gen[r] fi;
#else
    seen = latest;
#endif
    if :: seen > gen[r] -> superseded[r] = true; seen = 0; goto stopped :: else -> seen = 0 fi
  }
#endif
  if :: doubt -> atomic { see(r, c); doubt = false }           /* Lane._deliver: settle */
     :: else fi;
NEXT:
  atomic {                                                     /* LanePool.next_transaction */
    if :: superseded[r] -> goto stopped :: else fi;
    if :: has && THERE(r, c) -> has = false :: else fi;
    if :: has -> skip
       :: else -> c = 0;
          do :: c < CHUNKS && (THERE(r, c) || TAKEN(r, c)) -> c++ :: else -> break od;
          if :: c == CHUNKS -> c = 0; goto done :: else -> TAKEN(r, c) = true; has = true fi
    fi
  }
#ifndef NO_EPOCH
  if :: lost -> goto OPEN :: else fi;                          /* Transactions.begin */
#endif
  if :: IS_LOOSE(r) ->                                         /* the same without begin and commit */
#ifdef LEDGER_FIRST
        atomic { known[c] = true }; atomic { loose[c] = true; THERE(r, c) = true };
#else
        atomic { loose[c] = true }; atomic { known[c] = true; THERE(r, c) = true };
#endif
        goto NEXT
     :: else fi;
#ifdef LEDGER_FIRST
  atomic { if :: owner[l] == r + 1 -> open_[l] = true; E(l, c) = true :: else -> doubt = true; goto OPEN fi };
  atomic { if :: owner[l] == r + 1 && open_[l] -> D(l, c) = true :: else -> doubt = true; goto OPEN fi };
#else
  atomic { if :: owner[l] == r + 1 -> open_[l] = true; D(l, c) = true :: else -> doubt = true; goto OPEN fi };
  atomic { if :: owner[l] == r + 1 -> if :: open_[l] = true; E(l, c) = true
                                      :: !open_[l] -> doubt = true; goto OPEN fi          /* INVALID_TXN_STATE */
              :: else -> doubt = true; goto OPEN fi };
#endif
  atomic {                                                     /* Transactions.commit */
    if :: owner[l] != r + 1 -> doubt = true; goto OPEN
       :: owner[l] == r + 1 && open_[l] -> commit(l); THERE(r, c) = true
       :: owner[l] == r + 1 && open_[l] && faults < FAULTS && !late[l] ->
          faults++; commit(l); late[l] = true; lost = true; THERE(r, c) = true      /* sent again, answered; a copy remains */
       :: owner[l] == r + 1 && open_[l] && faults < FAULTS && !late[l] ->
          faults++; late[l] = true; doubt = true; goto OPEN                         /* on its way, nobody knows */
       :: owner[l] == r + 1 && open_[l] && faults < FAULTS ->
          faults++; commit(l); doubt = true; goto OPEN                            /* committed, nobody knows */
       :: owner[l] == r + 1 && !open_[l] -> THERE(r, c) = true                       /* ended by a late copy: success is answered */
    fi;
    has = false
  }
  goto NEXT;
done:
  atomic {
    ended[r]++;
    if :: ended[r] == SHIPPING(r) ->
          do :: c < CHUNKS -> assert(known[c] && visible[c] + loose[c] >= 1); c++ :: else -> c = 0; break od
       :: else fi
  }
stopped: skip
}

inline close(upto) { do :: fenced < (upto) -> atomic { new_epoch(fenced, 0); fenced++ } :: else -> break od }
#ifdef FENCE_OWN_LANES_ONLY
#define TO_CLOSE(n) HAS(me)
#else
#define TO_CLOSE(n) (n)
#endif

proctype Run(byte me) {
  byte seen, found, fenced, c;
#ifndef ONE_KEY
  bool tofence[MAXG + 1];
#endif
  atomic { started == me -> started++;                    /* runs are alike but for their lanes: the first to read is run 0 */
    to_fence(latest + 1, seen); looked[me] = latest + 1 }                         /* the lease's read */
#ifdef READ_BEFORE_FENCE
  atomic { read_ledger(me) };
#endif
#ifdef FENCE_BEFORE_ANNOUNCING
  close(TO_CLOSE(seen));
#endif
AGAIN:
  atomic {                                                                        /* announce */
    assert(latest < MAXG);
    latest++; gen[me] = latest;
#ifndef ONE_KEY
    covers[latest] = OWN(me);
#else
    covers[latest] = MAX(OWN(me), seen);
#endif
#ifndef FENCE_BEFORE_ANNOUNCING
    fenced = 0
#endif
  }
#ifdef MARKER_TOO_EARLY
  atomic { if :: seen > OWN(me) -> marker[gen[me]] = OWN(me) + 1 :: else fi };
#endif
#ifndef REMOVED_TOO_EARLY
  close(TO_CLOSE(seen));                                                          /* meanwhile: close_seen */
#endif
  atomic {                                                                        /* announce: the second read */
    to_fence(gen[me], found);
    if :: found > covers[gen[me]] ->
#if !defined(NO_ANNOUNCE_AGAIN) && defined(ONE_KEY)
          to_fence(latest + 1, found); seen = MAX(seen, found); found = 0; goto AGAIN
#else
          skip
#endif
       :: else fi;
    seen = MAX(seen, found); found = 0; looked[me] = 0;
#ifndef ONE_KEY
    c = gen[me] - 1; do :: c > 0 -> tofence[c] = !removed[c]; c-- :: else -> break od
#endif
  }
#ifndef REMOVED_TOO_EARLY
  close(TO_CLOSE(seen));
#endif
#ifndef ONE_KEY
  atomic { c = gen[me] - 1; do :: c > 0 -> removed[c] = removed[c] || tofence[c]; tofence[c] = false; c-- :: else -> break od }
#endif
#ifdef REMOVED_TOO_EARLY
  close(TO_CLOSE(seen));
#endif
#ifdef ONE_KEY
  atomic {                                                                        /* _say_that_they_are_fenced */
    if :: seen > OWN(me) -> marker[gen[me]] = OWN(me) + 1;
          c = 1; do :: c < gen[me] -> marker[c] = 0; c++ :: else -> c = 0; break od
       :: else fi
  }
#endif
  atomic {
#ifndef READ_BEFORE_FENCE
    read_ledger(me);                                                              /* take_over */
#endif
    c = 0; fenced = 0; seen = 0;
#ifdef ONE_LANE
    do :: c < HAS(me) - 1 -> c++ :: break od; run Lane(me, c); c = 0              /* any one of them */
#else
    do :: c < HAS(me) -> run Lane(me, c); c++ :: else -> c = 0; break od
#endif
  }
}
init {
  byte r;
  atomic {
    run Network();
#ifdef COMPACTION
    run Compaction();
#endif
    do :: r < RUNS -> run Run(r); r++ :: else -> r = 0; break od
  }
}
