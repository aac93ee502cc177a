; The threads of a pool at work: ranges of a parallel loop are taken from one counter, by the caller and by the workers.
;
; A worker that has nothing to do looks for a loop a while before it sleeps, and so does a caller that waits for the
; workers: a loop is often followed by another, and waking a thread takes longer than many loops. After a short while it
; lets others run between two looks. Ranges become smaller
; towards the end, so that a thread that is slow, or came late, does not hold up the others. `state` is one word: the
; number of the loop (from bit 32), whether it may still be joined (bit 31), and how many workers are in it. So a loop
; is over without those who never came, and memory for its arguments is the caller's.

%pool = type {
  i64, [7 x i64],                      ; 0 state
  ptr, ptr, i64, i64, i64, [3 x i64],  ; 2 the loop: function, 3 arguments, 4 iterations; 5 shares, 6 patience
  i64, i32, [13 x i32],                ; 8 the next iteration, 9 what failed
  i32, i32, i32, [13 x i32],           ; 11 workers asleep, 12 whether the caller is, 13 whether there is a caller
  [16 x i64], [16 x i64], [16 x i64]   ; 15 the lock, 16 "there is a loop", 17 "the workers have left"
}

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @sched_yield()
declare void @llvm.x86.sse2.pause()

; What to do before look `n` but one: at first no more than to tell the core, then let other threads have it.
define internal void @pass(i64 %n) alwaysinline {
entry:
  %long = icmp ugt i64 %n, 1000
  br i1 %long, label %yield, label %pause
yield:
  call i32 @sched_yield()
  ret void
pause:
  call void @llvm.x86.sse2.pause()
  ret void
}

; The bytes of a pool.
define i64 @size() {
  ret i64 ptrtoint (ptr getelementptr (%pool, ptr null, i64 1) to i64)
}

; A pool in memory that is zero. A range is what is left of a loop by `shares`; who waits looks `patience` times first.
define void @init(ptr %p, i64 %shares, i64 %patience) {
  %shares.at = getelementptr %pool, ptr %p, i32 0, i32 5
  %patience.at = getelementptr %pool, ptr %p, i32 0, i32 6
  store i64 %shares, ptr %shares.at
  store i64 %patience, ptr %patience.at
  %lock = getelementptr %pool, ptr %p, i32 0, i32 15
  %work = getelementptr %pool, ptr %p, i32 0, i32 16
  %done = getelementptr %pool, ptr %p, i32 0, i32 17
  call i32 @pthread_mutex_init(ptr %lock, ptr null)
  call i32 @pthread_cond_init(ptr %work, ptr null)
  call i32 @pthread_cond_init(ptr %done, ptr null)
  ret void
}

; Take ranges until there are none, or one failed; a range is one iteration at least.
define internal void @take(ptr %p) noinline {
entry:
  %fn.at = getelementptr %pool, ptr %p, i32 0, i32 2
  %args.at = getelementptr %pool, ptr %p, i32 0, i32 3
  %extent.at = getelementptr %pool, ptr %p, i32 0, i32 4
  %shares.at = getelementptr %pool, ptr %p, i32 0, i32 5
  %next.at = getelementptr %pool, ptr %p, i32 0, i32 8
  %failed.at = getelementptr %pool, ptr %p, i32 0, i32 9
  %fn = load ptr, ptr %fn.at
  %args = load ptr, ptr %args.at
  %extent = load i64, ptr %extent.at
  %shares = load i64, ptr %shares.at
  br label %look
look:
  %failed = load atomic i32, ptr %failed.at monotonic, align 4
  %begin = load atomic i64, ptr %next.at monotonic, align 8
  %left = sub i64 %extent, %begin
  %some = icmp sgt i64 %left, 0
  %well = icmp eq i32 %failed, 0
  %on = and i1 %some, %well
  br i1 %on, label %choose, label %over
choose:
  %part = udiv i64 %left, %shares
  %none = icmp eq i64 %part, 0
  %count = select i1 %none, i64 1, i64 %part
  %end = add i64 %begin, %count
  %swap = cmpxchg ptr %next.at, i64 %begin, i64 %end monotonic monotonic
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %run, label %look
run:
  %code = call i32 %fn(ptr %args, i64 %begin, i64 %end)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %fail, label %look
fail:
  store atomic i32 %code, ptr %failed.at monotonic, align 4
  br label %over
over:
  ret void
}

; Wake a sleeper or two, if there is work for them; who wakes does the same.
define internal void @wake(ptr %p) noinline {
entry:
  %extent.at = getelementptr %pool, ptr %p, i32 0, i32 4
  %next.at = getelementptr %pool, ptr %p, i32 0, i32 8
  %asleep.at = getelementptr %pool, ptr %p, i32 0, i32 11
  %lock = getelementptr %pool, ptr %p, i32 0, i32 15
  %work = getelementptr %pool, ptr %p, i32 0, i32 16
  %asleep = load atomic i32, ptr %asleep.at seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %left, label %over
left:
  %extent = load i64, ptr %extent.at
  %next = load atomic i64, ptr %next.at monotonic, align 8
  %some = icmp slt i64 %next, %extent
  br i1 %some, label %signal, label %over
signal:
  call i32 @pthread_mutex_lock(ptr %lock)
  call i32 @pthread_cond_signal(ptr %work)
  call i32 @pthread_cond_signal(ptr %work)
  call i32 @pthread_mutex_unlock(ptr %lock)
  br label %over
over:
  ret void
}

; A worker's life.
define void @serve(ptr %p) {
entry:
  %patience.at = getelementptr %pool, ptr %p, i32 0, i32 6
  %patience = load i64, ptr %patience.at
  %state.at = getelementptr %pool, ptr %p, i32 0, i32 0
  %asleep.at = getelementptr %pool, ptr %p, i32 0, i32 11
  %waits.at = getelementptr %pool, ptr %p, i32 0, i32 12
  %lock = getelementptr %pool, ptr %p, i32 0, i32 15
  %work = getelementptr %pool, ptr %p, i32 0, i32 16
  %done = getelementptr %pool, ptr %p, i32 0, i32 17
  br label %look
look:
  %seen = phi i64 [ 0, %entry ], [ %seen, %pause ], [ %seen, %missed ], [ %seen, %awake ], [ %number, %leave ]
  %looks = phi i64 [ 0, %entry ], [ %looked, %pause ], [ %looks, %missed ], [ 0, %awake ], [ 0, %leave ]
  %state = load atomic i64, ptr %state.at acquire, align 8
  %number = lshr i64 %state, 32
  %open.bit = and i64 %state, 2147483648
  %open = icmp ne i64 %open.bit, 0
  %new = icmp ne i64 %number, %seen
  %there = and i1 %open, %new
  br i1 %there, label %join, label %idle
join:
  %entered = add i64 %state, 1
  %swap = cmpxchg ptr %state.at, i64 %state, i64 %entered acq_rel acquire
  %in = extractvalue { i64, i1 } %swap, 1
  br i1 %in, label %help, label %missed
missed:
  br label %look
help:
  call void @wake(ptr %p)
  call void @take(ptr %p)
  %before = atomicrmw sub ptr %state.at, i64 1 seq_cst
  %others.bits = and i64 %before, 2147483647
  %last = icmp eq i64 %others.bits, 1
  %waits = load atomic i32, ptr %waits.at seq_cst, align 4
  %asked = icmp ne i32 %waits, 0
  %tell = and i1 %last, %asked
  br i1 %tell, label %told, label %leave
told:
  call i32 @pthread_mutex_lock(ptr %lock)
  call i32 @pthread_cond_signal(ptr %done)
  call i32 @pthread_mutex_unlock(ptr %lock)
  br label %leave
leave:
  br label %look
idle:
  %looked = add i64 %looks, 1
  %tired = icmp ugt i64 %looked, %patience
  br i1 %tired, label %sleep, label %pause
pause:
  call void @pass(i64 %looked)
  br label %look
sleep:
  call i32 @pthread_mutex_lock(ptr %lock)
  atomicrmw add ptr %asleep.at, i32 1 seq_cst
  br label %check
check:
  %now = load atomic i64, ptr %state.at seq_cst, align 8
  %now.number = lshr i64 %now, 32
  %now.bit = and i64 %now, 2147483648
  %now.open = icmp ne i64 %now.bit, 0
  %now.new = icmp ne i64 %now.number, %seen
  %called = and i1 %now.open, %now.new
  br i1 %called, label %awake, label %still
still:
  call i32 @pthread_cond_wait(ptr %work, ptr %lock)
  br label %check
awake:
  atomicrmw sub ptr %asleep.at, i32 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr %lock)
  br label %look
}

; fn(args, begin, end) for ranges that cover 0 .. extent-1, and 0; or what a range gave that failed, after which no more
; are begun. While the workers are another caller's, this one goes through small ranges by itself.
define i32 @run(ptr %p, ptr %fn, ptr %args, i64 %extent) {
entry:
  %patience.at = getelementptr %pool, ptr %p, i32 0, i32 6
  %patience = load i64, ptr %patience.at
  %state.at = getelementptr %pool, ptr %p, i32 0, i32 0
  %fn.at = getelementptr %pool, ptr %p, i32 0, i32 2
  %args.at = getelementptr %pool, ptr %p, i32 0, i32 3
  %extent.at = getelementptr %pool, ptr %p, i32 0, i32 4
  %shares.at = getelementptr %pool, ptr %p, i32 0, i32 5
  %shares = load i64, ptr %shares.at
  %next.at = getelementptr %pool, ptr %p, i32 0, i32 8
  %failed.at = getelementptr %pool, ptr %p, i32 0, i32 9
  %waits.at = getelementptr %pool, ptr %p, i32 0, i32 12
  %called.at = getelementptr %pool, ptr %p, i32 0, i32 13
  %lock = getelementptr %pool, ptr %p, i32 0, i32 15
  %done = getelementptr %pool, ptr %p, i32 0, i32 17
  br label %ask
ask:
  %begin = phi i64 [ 0, %entry ], [ %end, %alone ]
  %left = sub i64 %extent, %begin
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %try, label %well
well:
  ret i32 0
try:
  %swap = cmpxchg ptr %called.at, i32 0, i32 1 acquire monotonic
  %first = extractvalue { i32, i1 } %swap, 1
  br i1 %first, label %lead, label %alone
alone:
  %part = udiv i64 %left, %shares
  %none = icmp eq i64 %part, 0
  %count = select i1 %none, i64 1, i64 %part
  %end = add i64 %begin, %count
  %code = call i32 %fn(ptr %args, i64 %begin, i64 %end)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %fail, label %ask
fail:
  ret i32 %code
lead:
  store ptr %fn, ptr %fn.at
  store ptr %args, ptr %args.at
  store i64 %extent, ptr %extent.at
  store atomic i64 %begin, ptr %next.at monotonic, align 8
  store atomic i32 0, ptr %failed.at monotonic, align 4
  %state = load atomic i64, ptr %state.at monotonic, align 8
  %number = lshr i64 %state, 32
  %another = add i64 %number, 1
  %word = shl i64 %another, 32
  %open = or i64 %word, 2147483648
  store atomic i64 %open, ptr %state.at seq_cst, align 8
  call void @wake(ptr %p)
  call void @take(ptr %p)
  %closed = atomicrmw and ptr %state.at, i64 -2147483649 seq_cst
  br label %look
look:
  %looks = phi i64 [ 0, %lead ], [ %looked, %pause ]
  %now = load atomic i64, ptr %state.at acquire, align 8
  %in = and i64 %now, 2147483647
  %alone.now = icmp eq i64 %in, 0
  br i1 %alone.now, label %over, label %wait
wait:
  %looked = add i64 %looks, 1
  %tired = icmp ugt i64 %looked, %patience
  br i1 %tired, label %sleep, label %pause
pause:
  call void @pass(i64 %looked)
  br label %look
sleep:
  call i32 @pthread_mutex_lock(ptr %lock)
  store atomic i32 1, ptr %waits.at seq_cst, align 4
  br label %check
check:
  %then = load atomic i64, ptr %state.at seq_cst, align 8
  %still.in = and i64 %then, 2147483647
  %gone = icmp eq i64 %still.in, 0
  br i1 %gone, label %awake, label %still
still:
  call i32 @pthread_cond_wait(ptr %done, ptr %lock)
  br label %check
awake:
  store atomic i32 0, ptr %waits.at seq_cst, align 4
  call i32 @pthread_mutex_unlock(ptr %lock)
  br label %over
over:
  %failed = load atomic i32, ptr %failed.at monotonic, align 4
  store atomic i32 0, ptr %called.at release, align 4
  ret i32 %failed
}
