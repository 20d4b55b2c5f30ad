/* A file is renamed while runs ship it. Run 0 reads it under its first name, A. The others list it under its new name, B: they plan, which
 * proves that B holds what the ledger has of A; take over; hold the ledger against the plan; write `moved` records; ship the rest.
 * The takeover is two steps here, and a lane has one transaction at a time; takeover.pml has more of both.
 * Safety: no chunk is committed twice; a run that ends green finds every chunk in the topic, and in the ledger as B's. */
#ifndef RUNS
#define RUNS 2                   /* 1 of A, the others of B */
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif

bool renamed;
byte latest;                     /* generation */
byte owner;                      /* run + 1 that has the epoch of the lane */
bool open_, open_moved; byte open_chunk, open_as;       /* the lane's transaction: chunk + 1 of file open_as, or moved records of `moving` */
bool moving[CHUNKS];

bool of_a[CHUNKS], of_b[CHUNKS], moved[CHUNKS];         /* what the ledger has */
byte visible[CHUNKS];                                   /* committed to the topic */
byte faults, k_;

inline new_epoch(who) {
  d_step { do :: k_ < CHUNKS -> moving[k_] = false; k_++ :: else -> k_ = 0; break od;
           owner = who; open_ = false; open_moved = false; open_chunk = 0; open_as = 0 }
}
inline commit() {
  d_step {
    if :: open_moved -> do :: k_ < CHUNKS -> moved[k_] = moved[k_] || moving[k_]; k_++ :: else -> k_ = 0; break od
       :: open_chunk > 0 && open_as == 0 -> visible[open_chunk - 1]++; of_a[open_chunk - 1] = true
       :: open_chunk > 0 && open_as == 1 -> visible[open_chunk - 1]++; of_b[open_chunk - 1] = true
       :: else fi;
    do :: k_ < CHUNKS -> assert(visible[k_] <= 1); moving[k_] = false; k_++ :: else -> k_ = 0; break od;
    open_ = false; open_moved = false; open_chunk = 0; open_as = 0
  }
}

proctype Rename() { renamed = true }

proctype Run(byte me) {
  byte mine, c; bool plan[CHUNKS], there[CHUNKS], any;
  if :: me == 0 -> skip
     :: else -> atomic { renamed ->                      /* the plan: a look, which may miss what another broker has */
          do :: c < CHUNKS -> plan[c] = of_a[c]; c++
             :: c < CHUNKS && of_a[c] && faults < FAULTS -> faults++; c++
             :: else -> c = 0; break od }
  fi;
  atomic { latest++; mine = latest };
  atomic { new_epoch(0) }
  atomic {                                               /* take_over: the deciding read */
    do :: c < CHUNKS -> there[c] = (me == 0 -> of_a[c] : moved[c] || of_b[c]); any = any || there[c]; c++ :: else -> c = 0; break od;
    if :: me == 0 -> any = false; if :: renamed -> goto stopped :: else fi  /* it opens A, and goes on reading what it has opened */
       :: any -> any = false                             /* B is in the ledger: it is resumed */
       :: else ->
          do :: c < CHUNKS -> any = any || plan[c]; c++ :: else -> c = 0; break od;
#if defined(CONFIRMS_RECOGNISED_ONLY)
          do :: any && c < CHUNKS && of_a[c] != plan[c] -> goto stopped :: any && c < CHUNKS && of_a[c] == plan[c] -> c++ :: else -> c = 0; break od
#elif !defined(NO_CONFIRM)
          do :: c < CHUNKS && of_a[c] != plan[c] -> goto stopped :: c < CHUNKS && of_a[c] == plan[c] -> c++ :: else -> c = 0; break od
#endif
    fi
  }
  if :: any ->                                           /* write_as_lane */
        atomic { new_epoch(me + 1) }
        atomic { if :: latest != mine -> goto stopped :: else fi }
        atomic { if :: owner != me + 1 -> goto stopped :: else -> open_moved = true;
                       do :: c < CHUNKS -> moving[c] = plan[c]; there[c] = plan[c]; c++ :: else -> c = 0; break od fi }
        atomic { if :: owner != me + 1 -> goto stopped
                    :: owner == me + 1 -> commit()
                    :: owner == me + 1 && faults < FAULTS -> faults++; commit(); goto stopped      /* killed, or nobody knows */
                 fi }
     :: else fi;
OPEN:
  atomic { new_epoch(me + 1) }
  atomic { if :: latest != mine -> goto stopped :: else fi }
NEXT:
  atomic { c = 0; do :: c < CHUNKS && there[c] -> c++ :: else -> break od; if :: c == CHUNKS -> c = 0; goto ended :: else fi }
  atomic { if :: owner != me + 1 -> goto stopped :: else -> open_ = true; open_chunk = c + 1; open_as = (me == 0 -> 0 : 1) fi }
  atomic { if :: owner != me + 1 -> goto stopped
              :: owner == me + 1 && open_ -> commit(); there[c] = true; c = 0
              :: owner == me + 1 && open_ && faults < FAULTS -> faults++; commit(); goto stopped
           fi }
  goto NEXT;
ended:
  atomic {
    do :: c < CHUNKS -> assert(visible[c] == 1); assert(me == 0 || moved[c] || of_b[c]); c++ :: else -> c = 0; break od
  }
stopped:
  atomic { c = 0; mine = 0; any = false; do :: c < CHUNKS -> plan[c] = false; there[c] = false; c++ :: else -> c = 0; break od }
}
init {
  byte r;
  atomic { run Rename(); do :: r < RUNS -> run Run(r); r++ :: else -> r = 0; break od }
}
