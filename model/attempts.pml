/* Attempts: Spark tasks of one or two generations, each with ATTEMPTS attempts that may live side by side, since Spark takes for
 * dead what it does not hear of. An attempt announces itself, opens its lanes, asks for the right to ship, and reads what was
 * committed if it is not alone. A task's first attempt opens its lanes while it announces itself: all that it may fence are later ones,
 * which come back, and find that they have the right. The takeover of the second generation is in three steps here; takeover.pml has more.
 * Safety: as in takeover.pml.
 * The control partition is a log of records; compaction may clean all of it at any time. */
#ifndef RUNS
#define RUNS 2
#endif
#ifndef TASKS
#define TASKS 1
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef LANES
#define LANES 1                  /* of each task */
#endif
#ifndef CHUNKS
#define CHUNKS 1
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#define IDS (TASKS * LANES)
#define ALL (RUNS * TASKS * ATTEMPTS)
#ifdef ANNOUNCED_TWICE
#define LOG (RUNS + 3 * ALL)
#else
#define LOG (RUNS + 2 * ALL)
#endif

/* Records of the control partition: a generation (number 0), or an attempt of a task. */
byte length;
byte generation[LOG], task[LOG], number[LOG];
bool ended[LOG], gone[LOG];
byte cleaned;

byte owner[IDS];                 /* attempt + 1; 0: a fence has the epoch */
bool open_[IDS];
byte sent[IDS];                  /* chunk + 1 in the open transaction, with its entry */
byte visible[CHUNKS];
bool known[CHUNKS];
bool base[RUNS * CHUNKS];        /* what the ledger held when the generation took over */
byte gen[RUNS];
byte done[RUNS * TASKS];         /* attempts that ended well */
byte faults;
byte i_, n_, last_, cur_, p_;    /* scratch, zero between steps */

#ifdef SECOND_SCAN
#define TASK_OF(r, c) (((c) + (r)) % TASKS)      /* another reading cuts the work otherwise */
#define COUNT(r, t) ((r) == (t) -> ATTEMPTS - (r) : 1 - (r))     /* two attempts where the zombie is, and no task without need */
#else
#define TASK_OF(r, c) ((c) % TASKS)
#define COUNT(r, t) ((r) + 1 < RUNS -> 1 : ATTEMPTS)             /* one zombie of an earlier run is enough */
#endif
#ifndef ENDED
#define ENDED 3                  /* bit r: attempts of run r say that they have ended, as they do under a rate limit */
#endif
#define SAYS_ENDED(r) (((ENDED) >> (r)) & 1)
#ifdef SCAN_WITHOUT_GENERATION
#define NUMBER(r, a) ((r) * ATTEMPTS + (a) + 1)  /* one application: Spark goes on counting */
#else
#define NUMBER(r, a) ((a) + 1)
#endif

inline append(g, t, n, e) {
  generation[length] = g; task[length] = t; number[length] = n; ended[length] = e; length++
}
/* Control.feed and Control._note: cur_ is the generation, n_ the task's first attempt, p_ its last, last_ the one with the right. */
inline fold(t) {
  d_step {
    i_ = 0; n_ = 0; p_ = 0; last_ = 0; cur_ = 0;
    do :: i_ < length ->
          if :: gone[i_] -> skip
             :: !gone[i_] && number[i_] == 0 -> cur_ = generation[i_]; n_ = 0; p_ = 0; last_ = 0
             :: !gone[i_] && number[i_] > 0 && generation[i_] == cur_ && task[i_] == t ->
                if :: n_ == 0 || number[i_] < n_ -> n_ = number[i_] :: else fi;
                if :: number[i_] > p_ -> p_ = number[i_] :: else fi;
#ifdef ORDER_OF_THE_LOG
                last_ = number[i_]
#else
                last_ = p_
#endif
             :: else fi;
          i_++
       :: else -> break od
  }
}
inline forget() { d_step { i_ = 0; p_ = 0; cur_ = 0; last_ = 0; n_ = 0 } }

#ifdef ATTEMPT_KEY_WITHOUT_GENERATION
#define SAME_GENERATION(i, j) true
#else
#define SAME_GENERATION(i, j) (generation[i] == generation[j])
#endif
#define SAME_KEY(i, j) ((number[i] == 0 && number[j] == 0) || (number[i] > 0 && number[i] == number[j] && task[i] == task[j] \
                        && SAME_GENERATION(i, j) && ended[i] == ended[j]))
proctype Compaction() {
  end:
  do :: d_step { cleaned < length -> i_ = 0;
          do :: i_ < length ->
                p_ = i_ + 1; do :: p_ < length && !SAME_KEY(i_, p_) -> p_++ :: else -> break od;
                if :: p_ < length -> gone[i_] = true :: else fi; i_++
             :: else -> break od;
          i_ = 0; p_ = 0; cleaned = length }
  od
}
inline drop(id) { d_step { open_[id] = false; sent[id] = 0 } }
inline commit(id) { d_step { c = sent[id] - 1; visible[c]++; known[c] = true; open_[id] = false; sent[id] = 0; assert(visible[c] <= 1) } }
inline new_epoch(id, who) { d_step { if :: open_[id] -> open_[id] = false; sent[id] = 0 :: else fi; owner[id] = who } }

/* TaskAttempt.check */
inline check() {
  atomic {
    fold(t);
    alone = (n_ == p_);
    if :: cur_ != gen[r] -> forget(); goto stopped
#ifndef NO_ATTEMPT_RIGHT
       :: cur_ == gen[r] && last_ != NUMBER(r, a) -> forget(); goto stopped
#endif
       :: else -> forget()
    fi
  }
}
#define ME (((r) * TASKS + (t)) * ATTEMPTS + (a) + 1)
#define ID(l) ((t) * LANES + (l))
#ifdef ANNOUNCE_AFTER_OPENING
#define BESIDE(a) true
#else
#define BESIDE(a) ((a) == 0)
#endif

#ifdef ANNOUNCED_TWICE
proctype LateCopy(byte r; byte t; byte a) { atomic { append(gen[r], t, NUMBER(r, a), false) } }
#endif
proctype Attempt(byte r; byte t; byte a) {
  byte c, l, w; bool alone, said; bool there[CHUNKS];
#ifdef ANNOUNCED_TWICE
  run LateCopy(r, t, a);                                            /* nobody acknowledged the first copy, and it comes later */
#endif
#ifdef READ_BEFORE_OPENING
  atomic { do :: c < CHUNKS -> there[c] = base[r * CHUNKS + c] || known[c]; c++ :: else -> c = 0; break od }
#else
  atomic { do :: c < CHUNKS -> there[c] = base[r * CHUNKS + c]; c++ :: else -> c = 0; break od }
#endif
  do :: atomic { !said -> append(gen[r], t, NUMBER(r, a), false); said = true }          /* TaskAttempt.announce */
     :: atomic { l < LANES && (said || BESIDE(a)) -> new_epoch(ID(l), ME); l++ }           /* LanePool.open */
     :: atomic { said && l == LANES -> l = 0; said = false; break }
  od;
  check();
#if !defined(LATER_READS_NOTHING) && !defined(READ_BEFORE_OPENING)
  atomic {                                                          /* TaskLanes.open: committed() */
    if :: !alone -> do :: c < CHUNKS -> there[c] = there[c] || known[c]; c++ :: else -> c = 0; break od :: else fi }
#endif
NEXT:
  atomic {
    do :: w < CHUNKS && (there[w] || TASK_OF(r, w) != t) -> w++ :: else -> break od;
    if :: w == CHUNKS -> goto finished
       :: else ->
#ifdef SECOND_SCAN
          if :: r == 0 -> there[w] = true; goto NEXT :: true fi;    /* its topic is away: it stays unsent for the next scan */
#endif
          if :: l = 0 :: LANES > 1 -> l = LANES - 1 fi
    fi
  }
  if :: faults < FAULTS -> faults++; goto LOST :: true fi;          /* the connection was lost: opened anew, without asking the ledger */
SEND:
  atomic { if :: owner[ID(l)] == ME -> open_[ID(l)] = true; sent[ID(l)] = w + 1 :: else -> goto FAULT fi }
  atomic { if :: owner[ID(l)] != ME -> goto FAULT
              :: owner[ID(l)] == ME -> commit(ID(l)); c = 0; there[w] = true
              :: owner[ID(l)] == ME && faults < FAULTS -> faults++; commit(ID(l)); c = 0; goto FAULT       /* nobody knows */
           fi }
  goto NEXT;
LOST:
  atomic { new_epoch(ID(l), ME) }
  check();
  goto SEND;
FAULT:                                                              /* Lane._deliver: open, settle */
  atomic { new_epoch(ID(l), ME) }
  check();
  atomic { if :: known[w] -> there[w] = true; goto NEXT :: else -> goto SEND fi };
finished:
  atomic { done[r * TASKS + t]++; w = 0; l = 0 }
stopped:
  atomic { if :: SAYS_ENDED(r) -> append(gen[r], t, NUMBER(r, a), true) :: else fi; c = 0; w = 0; l = 0; alone = false }      /* announce(ended=True) */
}

proctype Driver(byte r) {
  byte c, t;
#ifdef SCAN_WITHOUT_GENERATION
  if :: r > 0 -> atomic { done[0] > 0 && done[TASKS - 1] > 0 -> gen[r] = gen[0] } :: else ->
#endif
  atomic { append(r + 1, 0, 0, false); gen[r] = r + 1 }
  do :: c < IDS -> atomic { new_epoch(c, 0); c++ } :: else -> c = 0; break od
#ifdef SCAN_WITHOUT_GENERATION
  fi
#endif
  atomic {
    do :: c < CHUNKS -> base[r * CHUNKS + c] = known[c]; c++ :: else -> c = 0; break od;
    do :: t < TASKS ->
          do :: c < COUNT(r, t) -> run Attempt(r, t, c); c++ :: else -> c = 0; break od;
          t++
       :: else -> t = 0; break od
  }
#ifndef SECOND_SCAN
  atomic {                                                          /* a run is green when each task has an attempt that ended well */
    done[r * TASKS] > 0 && done[r * TASKS + TASKS - 1] > 0 ->
    do :: c < CHUNKS -> assert(known[c] && visible[c] == 1); c++ :: else -> break od
  }
#endif
}
init {
  byte r;
  atomic {
    run Compaction();
#ifdef SECOND_SCAN
    run Driver(0);
#ifndef SCAN_WITHOUT_GENERATION
    (done[0] > 0 && done[TASKS - 1] > 0);
#endif
    run Driver(1)
#else
    /* Run 0 is the first to announce itself. */
    run Driver(0); length > 0;
    if :: RUNS > 1 -> run Driver(1) :: else fi
#endif
  }
}
