-------------------------------- MODULE Jobs --------------------------------
(* The life of a job: leases, the fence, the sweep, cancelling, division, slots and publishing.   *)
(* The verbs are those of src/rushes/jobs/queue.py. Time is left out: a lease may end at any      *)
(* moment, a worker may pause for as long as it likes, and a reply may be lost, so what holds     *)
(* here holds for every length of a lease. `Fenced = FALSE` trusts whoever says that a job is     *)
(* done: TLC has to refuse it.                                                                    *)
EXTENDS Naturals, FiniteSets

CONSTANTS Alone,        \* jobs that are done in one piece
          Whole, Parts, \* a job that may be divided, and what it is divided into
          ToWatch,      \* those that make what is watched; the others make the transcript
          Workers, MaxAttempts, MaxClaims, Fenced, None

Jobs == Alone \union {Whole} \union Parts
Ended == {"completed", "failed", "canceled"}
Slots == {"watch", "transcript"}
SlotOf(j) == IF j \in ToWatch THEN "watch" ELSE "transcript"

\* Every change of state there is; the check of a real history goes by the same table.
Steps == {
  <<"none", "queued">>, <<"none", "blocked">>,  \* enqueue; behind a parent
  <<"queued", "queued">>, <<"queued", "processing">>,  \* another priority; claim
  <<"queued", "canceled">>, <<"queued", "failed">>,  \* cancel; its beginning has failed for good
  <<"processing", "processing">>,               \* progress, and a cancel that is yet to be heard
  <<"processing", "completed">>,                \* complete
  <<"processing", "queued">>,                   \* fail, release, sweep
  <<"processing", "failed">>,                   \* the same, for the last time
  <<"processing", "canceled">>,                 \* whatever is said after a cancel
  <<"processing", "blocked">>,                  \* divide
  <<"blocked", "blocked">>,                     \* progress of its parts
  <<"blocked", "queued">>,                      \* its parent, or its parts, have completed
  <<"blocked", "failed">>,                      \* one of its parts has failed
  <<"blocked", "canceled">>}                    \* cancel, of itself or what it waits for

VARIABLES
  state,      \* of each job
  epoch,      \* how often it was claimed; the number of its claim
  attempt,    \* how many of these count
  holder,     \* who holds it, by the database
  leased,     \* whether the lease still runs
  asked,      \* whether somebody wants it to be canceled
  believed,   \* the claims that workers believe to hold; a paused one believes it for long
  published,  \* of each job, the epochs under which it was published
  current,    \* what each slot shows: a job
  grace       \* nobody could reach a server a moment ago: leases that ended meanwhile run on

vars == <<state, epoch, attempt, holder, leased, asked, believed, published, current, grace>>
out == <<published, current, grace>>

Init ==
  /\ state = [j \in Jobs |-> "none"] /\ holder = [j \in Jobs |-> None]
  /\ epoch = [j \in Jobs |-> 0] /\ attempt = [j \in Jobs |-> 0]
  /\ leased = [j \in Jobs |-> FALSE] /\ asked = [j \in Jobs |-> FALSE]
  /\ believed = {} /\ grace = FALSE
  /\ published = [j \in Jobs |-> {}] /\ current = [s \in Slots |-> None]

\* Who may speak of a job: whoever holds it under this very claim.
Holds(c) ==
  /\ state[c.job] = "processing"
  /\ Fenced => (epoch[c.job] = c.epoch /\ holder[c.job] = c.worker)

Enqueue(j) ==
  /\ state[j] = "none" /\ j \notin Parts
  /\ state' = [state EXCEPT ![j] = "queued"]
  /\ UNCHANGED <<epoch, attempt, holder, leased, asked, believed, out>>

\* Somebody has done the beginning of a job that waits, and found that nothing can come of it.
FailWhole(j) ==
  /\ state[j] = "queued" /\ epoch[j] = 0 /\ j \notin Parts
  /\ state' = [state EXCEPT ![j] = "failed"]
  /\ UNCHANGED <<epoch, attempt, holder, leased, asked, believed, out>>

Claim(w, j) ==
  /\ state[j] = "queued" /\ epoch[j] < MaxClaims
  /\ state' = [state EXCEPT ![j] = "processing"]
  /\ epoch' = [epoch EXCEPT ![j] = @ + 1] /\ attempt' = [attempt EXCEPT ![j] = @ + 1]
  /\ holder' = [holder EXCEPT ![j] = w] /\ leased' = [leased EXCEPT ![j] = TRUE]
  /\ believed' \in {believed \union {[worker |-> w, job |-> j, epoch |-> epoch[j] + 1]},
                   believed}  \* the reply was lost
  /\ UNCHANGED <<asked, out>>

\* A heartbeat or progress: the lease runs on, or the worker hears that it lost the job.
Heartbeat(c) ==
  /\ c \in believed
  /\ IF Holds(c) THEN leased' = [leased EXCEPT ![c.job] = TRUE] /\ UNCHANGED believed
                 ELSE believed' = believed \ {c} /\ UNCHANGED leased
  /\ UNCHANGED <<state, epoch, attempt, holder, asked, out>>

\* Where a held job goes: `to`, or canceled if that was asked for.
Settle(j, to, counts) ==
  /\ state' = [state EXCEPT ![j] = IF asked[j] THEN "canceled" ELSE to]
  /\ attempt' = [attempt EXCEPT ![j] = IF counts \/ asked[j] THEN @ ELSE @ - 1]
  /\ holder' = [holder EXCEPT ![j] = None] /\ leased' = [leased EXCEPT ![j] = FALSE]
  /\ UNCHANGED <<epoch, asked>>

Again(j, counts) ==
  Settle(j, IF epoch[j] >= MaxClaims \/ (counts /\ attempt[j] >= MaxAttempts)
            THEN "failed" ELSE "queued", counts)

\* The job ends and its slot shows what was made, in one transaction.
Complete(c) ==
  /\ c \in believed /\ Holds(c) /\ ~asked[c.job]
  /\ state' = [state EXCEPT ![c.job] = "completed"]
  /\ holder' = [holder EXCEPT ![c.job] = None] /\ leased' = [leased EXCEPT ![c.job] = FALSE]
  /\ published' = [published EXCEPT ![c.job] = @ \union {c.epoch}]
  /\ current' = IF c.job \in Parts THEN current ELSE [current EXCEPT ![SlotOf(c.job)] = c.job]
  /\ believed' = believed \ {c}
  /\ UNCHANGED <<epoch, attempt, asked, grace>>

Fail(c) ==
  /\ c \in believed /\ Holds(c)
  /\ Again(c.job, TRUE) \/ Settle(c.job, "failed", TRUE)
  /\ believed' = believed \ {c}
  /\ UNCHANGED out

Release(c) ==
  /\ c \in believed /\ Holds(c)
  /\ Again(c.job, FALSE)
  /\ believed' = believed \ {c}
  /\ UNCHANGED out

Divide(c) ==
  /\ c \in believed /\ Holds(c) /\ c.job = Whole /\ Parts # {} /\ ~asked[Whole]
  /\ epoch[Whole] < MaxClaims /\ \A p \in Parts : state[p] = "none"
  /\ state' = [j \in Jobs |-> IF j = Whole THEN "blocked"
                              ELSE IF j \in Parts THEN "queued" ELSE state[j]]
  /\ attempt' = [attempt EXCEPT ![Whole] = @ - 1]
  /\ holder' = [holder EXCEPT ![Whole] = None] /\ leased' = [leased EXCEPT ![Whole] = FALSE]
  /\ believed' = believed \ {c}
  /\ UNCHANGED <<epoch, asked, out>>

\* The whole goes on when all its parts have ended; one that did not complete decides.
Join ==
  /\ state[Whole] = "blocked" /\ Parts # {}
  /\ LET ends == {state[p] : p \in Parts} IN
     \/ ends = {"completed"} /\ state' = [state EXCEPT ![Whole] = "queued"]
     \/ "failed" \in ends /\ state' = [state EXCEPT ![Whole] = "failed"]
     \/ "failed" \notin ends /\ "canceled" \in ends /\ state' = [state EXCEPT ![Whole] = "canceled"]
  /\ UNCHANGED <<epoch, attempt, holder, leased, asked, believed, out>>

\* The parts of what has ended have nothing to do any more.
CancelParts(p) ==
  /\ p \in Parts /\ state[Whole] \in Ended
  /\ \/ state[p] = "queued" /\ state' = [state EXCEPT ![p] = "canceled"] /\ UNCHANGED asked
     \/ state[p] = "processing" /\ ~asked[p] /\ asked' = [asked EXCEPT ![p] = TRUE] /\ UNCHANGED state
  /\ UNCHANGED <<epoch, attempt, holder, leased, believed, out>>

Cancel(j) ==
  /\ \/ state[j] \in {"queued", "blocked"} /\ state' = [state EXCEPT ![j] = "canceled"] /\ UNCHANGED asked
     \/ state[j] = "processing" /\ asked' = [asked EXCEPT ![j] = TRUE] /\ UNCHANGED state
  /\ UNCHANGED <<epoch, attempt, holder, leased, believed, out>>

Expire(j) ==
  /\ state[j] = "processing" /\ leased[j]
  /\ leased' = [leased EXCEPT ![j] = FALSE]
  /\ UNCHANGED <<state, epoch, attempt, holder, asked, believed, out>>

Sweep(j) ==
  /\ state[j] = "processing" /\ ~leased[j] /\ ~grace
  /\ Again(j, TRUE)
  /\ UNCHANGED <<believed, out>>

Crash(w) ==
  /\ \E c \in believed : c.worker = w
  /\ believed' = {c \in believed : c.worker # w}
  /\ UNCHANGED <<state, epoch, attempt, holder, leased, asked, out>>

Outage ==
  /\ grace' = ~grace
  /\ UNCHANGED <<state, epoch, attempt, holder, leased, asked, believed, published, current>>

Next ==
  \/ \E j \in Jobs : Enqueue(j) \/ FailWhole(j) \/ Cancel(j) \/ Expire(j) \/ Sweep(j) \/ CancelParts(j)
  \/ \E w \in Workers : Crash(w) \/ \E j \in Jobs : Claim(w, j)
  \/ \E c \in believed : Heartbeat(c) \/ Complete(c) \/ Fail(c) \/ Release(c) \/ Divide(c)
  \/ Join \/ Outage

\* Workers come for what is queued, and leases that nobody renews end: then every job does, too.
Fair ==
  /\ \A j \in Jobs : /\ WF_vars(\E w \in Workers : Claim(w, j))
                     /\ SF_vars(~grace /\ Expire(j)) /\ SF_vars(Sweep(j))
                     /\ WF_vars(CancelParts(j))
  /\ WF_vars(Join) /\ WF_vars(grace /\ Outage)
Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ Fair

\* What is promised.
OneHolder == \A j \in Jobs : (state[j] = "processing") <=> (holder[j] # None)
Bounded == \A j \in Jobs : attempt[j] \in 0..MaxAttempts /\ epoch[j] \in attempt[j]..MaxClaims
\* Nothing is published twice, and only by the claim that the job was completed under.
Fence == \A j \in Jobs : published[j] = IF state[j] = "completed" THEN {epoch[j]} ELSE {}
ShowsWhatCompleted == \A s \in Slots : current[s] # None =>
  (state[current[s]] = "completed" /\ SlotOf(current[s]) = s)
DividedWaits == state[Whole] = "blocked" => \A p \in Parts : state[p] # "none"
OnlySteps == [][\A j \in Jobs : state'[j] # state[j] => <<state[j], state'[j]>> \in Steps]_vars
EndedForGood == [][\A j \in Jobs : state[j] \in Ended => state'[j] = state[j]]_vars
OncePlayable == [][\A s \in Slots : current[s] # None => current'[s] # None]_vars
SlotsApart == [][Cardinality({s \in Slots : current'[s] # current[s]}) <= 1]_vars
EveryJobEnds == \A j \in Jobs : (state[j] # "none") ~> (state[j] \in Ended)
=============================================================================
