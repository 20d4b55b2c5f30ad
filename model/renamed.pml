/* A file is renamed while runs ship it. Run 0 reads it under its first name, A. The others list it under its new name, B, and with COPIES a copy of it, C, as
 * well. They take over; decide by what the ledger has then; write that B is A, if A was delivered whole; ship what is left of B, then of C.
 * The takeover is two steps here, and a lane has one transaction at a time; takeover.pml has more of both.
 * With SHORT, B is another file that begins with all of A, which is no more than a header: A has the first chunk alone.
 * Safety: no chunk is committed more often than files have it; a run that ends green finds every chunk in the topic as often as that. */
#ifndef RUNS
#define RUNS 2                   /* 1 of A, the others of B and C */
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifdef COPIES
#define FILES 2
#else
#define FILES 1
#endif
#ifdef SHORT
#define OF_A 1                   /* chunks of A, which B has as well, and as its own */
#else
#define OF_A CHUNKS
#endif

bool renamed;
byte latest;                     /* generation */
byte owner;                      /* run + 1 that has the epoch of the lane */
bool open_; byte open_alias, open_chunk, open_as;       /* the lane's transaction: file + 1 that is to be A; or chunk + 1 of file open_as, 0 for A, else file + 1 */

bool of_a[CHUNKS], of_f[4];                             /* what the ledger has; of_f: of file f chunk c at 2 * f + c */
bool alias[2], heir;                                    /* the file is A; A has an heir */
byte visible[CHUNKS];                                   /* committed to the topic */
byte faults, k_;

inline new_epoch(who) { d_step { owner = who; open_ = false; open_alias = 0; open_chunk = 0; open_as = 0 } }
inline commit() {
  d_step {
    if :: open_alias > 0 -> alias[open_alias - 1] = true; heir = true
       :: open_chunk > 0 && open_as == 0 -> visible[open_chunk - 1]++; of_a[open_chunk - 1] = true
       :: open_chunk > 0 && open_as > 0 -> visible[open_chunk - 1]++; of_f[2 * (open_as - 1) + open_chunk - 1] = true
       :: else fi;
#ifdef SHORT
    assert(visible[0] <= 2 && visible[1] <= 1);
#else
    do :: k_ < CHUNKS -> assert(visible[k_] <= FILES); k_++ :: else -> k_ = 0; break od;
#endif
    open_ = false; open_alias = 0; open_chunk = 0; open_as = 0
  }
}

proctype Rename() { renamed = true }

proctype Run(byte me) {
  byte mine, c, f, found; bool there[4], is_a[2], left_out[2], a_has[CHUNKS];
  if :: me == 0 -> skip
     :: else -> atomic { renamed ->
#ifdef DECIDED_BY_THE_PLAN
          do :: c < OF_A -> a_has[c] = of_a[c]; c++ :: else -> c = 0; break od     /* before the takeover, and not again */
#else
          skip
#endif
        }
  fi;
  atomic { latest++; mine = latest };
  atomic { new_epoch(0) }
  atomic {                                               /* take_over: the deciding read */
    if :: me == 0 -> if :: renamed -> goto stopped :: else fi;   /* it opens A, and goes on reading what it has opened */
          do :: c < OF_A -> there[c] = of_a[c]; c++ :: else -> c = 0; break od
       :: else ->
#ifndef DECIDED_BY_THE_PLAN
          do :: c < OF_A -> a_has[c] = of_a[c]; c++ :: else -> c = 0; break od;
#ifdef OWN_RUN_IS_BELIEVED
          if :: me == 1 -> do :: c < OF_A -> a_has[c] = false; c++ :: else -> c = 0; break od :: else fi;   /* run 0 is an attempt of run 1 */
#endif
#endif
          do :: c < OF_A -> found = found + a_has[c]; c++ :: else -> c = 0; break od;
          do :: f < FILES ->
               do :: c < CHUNKS -> there[2 * f + c] = of_f[2 * f + c] || alias[f]; c++ :: else -> c = 0; break od;
               if :: there[2 * f] || there[2 * f + 1] -> skip                       /* it is in the ledger: it is resumed */
#ifndef SHORT
#ifdef TWO_HEIRS
                  :: else -> if :: found == OF_A && !heir -> is_a[f] = true
#else
                  :: else -> if :: found == OF_A && !heir && (f == 0 || !is_a[0]) -> is_a[f] = true
#endif
#ifndef PART_IS_NEW
                                :: found > 0 && found < OF_A -> left_out[f] = true
#endif
                                :: else fi
#else
#ifdef HEADER_PROVES
                  :: else -> if :: found == OF_A && !heir -> there[2 * f] = true :: else fi
#else
                  :: else
#endif
#endif
               fi; f++
             :: else -> f = 0; break od
    fi
  }
ALIAS:
  if :: f < FILES && is_a[f] ->                          /* write_as_lane */
        atomic { new_epoch(me + 1) }
        atomic { if :: latest != mine -> goto stopped :: else fi }
        atomic { if :: owner != me + 1 -> goto stopped :: else -> open_ = true; open_alias = f + 1 fi }
        atomic { if :: owner != me + 1 -> goto stopped
                    :: owner == me + 1 -> commit(); there[2 * f] = true; there[2 * f + 1] = true
                    :: owner == me + 1 && faults < FAULTS -> faults++; commit(); goto stopped      /* killed, or nobody knows */
                 fi }
     :: else fi;
  if :: f + 1 < FILES -> f++; goto ALIAS :: else -> f = 0 fi;
OPEN:
  atomic { new_epoch(me + 1) }
  atomic { if :: latest != mine -> goto stopped :: else fi }
NEXT:
  atomic { c = 0; do :: c < (me == 0 -> OF_A : CHUNKS) && (there[2 * f + c] || left_out[f]) -> c++ :: else -> break od;
           if :: c == (me == 0 -> OF_A : CHUNKS) -> c = 0; if :: me > 0 && f + 1 < FILES -> f++; goto NEXT :: else -> goto ended fi :: else fi }
  atomic { if :: owner != me + 1 -> goto stopped :: else -> open_ = true; open_chunk = c + 1; open_as = (me == 0 -> 0 : f + 1) fi }
  atomic { if :: owner != me + 1 -> goto stopped
              :: owner == me + 1 && open_ -> commit(); there[2 * f + c] = true; c = 0
              :: owner == me + 1 && open_ && faults < FAULTS -> faults++; commit(); goto stopped
           fi }
  goto NEXT;
ended:
  atomic {
    if :: me == 0 || left_out[0] || left_out[1] -> skip  /* not green, or of A alone */
       :: else ->
#ifdef SHORT
          do :: c < CHUNKS -> assert(visible[c] == 1 + (c == 0 && of_a[0])); c++ :: else -> c = 0; break od
#else
          do :: c < CHUNKS -> assert(visible[c] == FILES); c++ :: else -> c = 0; break od
#endif
    fi
  }
stopped:
  atomic { c = 0; f = 0; mine = 0; found = 0; do :: c < CHUNKS -> a_has[c] = false; c++ :: else -> c = 0; break od;
           do :: c < 4 -> there[c] = false; c++ :: else -> c = 0; break od; is_a[0] = false; is_a[1] = false; left_out[0] = false; left_out[1] = false }
}
init {
  byte r;
  atomic { run Rename(); do :: r < RUNS -> run Run(r); r++ :: else -> r = 0; break od }
}
