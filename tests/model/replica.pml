/* The replicated log: a master's log, the in-sync set, the cache as a witness, and a switch by a transaction in a
 * control store. The rules are those of docs/design/replication.md; rtmw/replica/protocol.py carries them out.
 *
 *   spin -a -DL=2 -DM=1 -DEMAX=3 replica.pml && cc -O2 -DSAFETY -DNOREDUCE -DCOLLAPSE -o pan pan.c && ./pan -E
 *
 * sizes.py has the sizes and the removals that are tried.
 *
 * STATE. Three nodes A=0 B=1 C=2.
 *   durable, per node : log (record = epoch*8 + message id, offset = index), ln, prom (highest
 *                       epoch promised). The epoch table is derived from the records.
 *   volatile          : role (0 idle, 1 slave aligned to epoch prom, 2 serving master of epoch
 *                       prom), com (commit point known), vI vP (the master's view of I and P).
 *   network           : elog[e] = all that the master of e ever sent; ack[e][n] = highest offset n
 *                       ever acknowledged under e. Both may be read at any later time, never, or
 *                       many times: this is delay, loss, reorder and duplication. Every rule
 *                       that uses an acknowledgement asks only "at least x", so a late or lost
 *                       acknowledgement is the same as a late or absent use of it.
 *   store             : se epoch, sI, sP, ckpt, cache = records [cfrom,cto). A transaction is one step.
 *   ghosts            : g[0..glen) = all that any master ever decided to be committed.
 * FAULTS (unbounded in number unless told otherwise). Crash and restart of any node at any step
 *   (a node that is down or cut off is a node that takes no step; a crash also inside a switch,
 *   after the truncation or after the append); spurious suspicion (a candidate needs no reason);
 *   a store answer lost although applied; a client message delivered late, twice, to anybody who
 *   believes it is master. -DORPHAN: one store request at a time delayed and applied later.
 *   -DLOSETAIL: one node loses one synced record and knows it.
 *   Write and fsync are one step (an unsynced record is visible to nobody), except with
 *   -DPIPELINE and -DM_ACK_BEFORE_FSYNC.
 * BOUNDS. EMAX epochs (EMAX-1 switches), L log slots, M client messages. Message 1 has a fence
 *   record (id 6). Messages of different epochs are different values. Mind: by dedupe and fence
 *   a log holds at most M records, so M=1 examines ONE offset and M=2 two, whatever L is.
 * PROPERTIES
 *   1   takeover_serve(), decided(): a serving master of a later epoch holds all of g
 *   2,3 decided(): the decided prefix equals g
 *   4   "told WRITTEN / CACHED / shown to readers" is the step decided(); each message once in g
 *   5   decided(): message 1 and its fence are never both in g (ABSENT = fence committed)
 *   6   reader step: an admitted answer equals g exactly (fresh, hence never goes back)
 *   7   -DPROBE=1, 2: from every reachable state one script commits a new record (AG EF):
 *       1 = all up, by acknowledgements; 2 = one member of I and the store up, through the cache.
 *       -DPROBE=3 = without a new epoch: fails.
 *   also align(): the epoch tables find exactly the common prefix; takeover: no gap below the chunks.
 *   -DCHK_NOCUT (stronger, fails harmlessly): a slave of a deposed master may cut a committed
 *   record that the cache and the checkpoint still cover.
 * REMOVALS: M_APPEND_ONLY_BEYOND_END M_LIST_BEFORE_TX M_PROMISE_AT_TX M_PROMISE_VOLATILE
 *   M_TRUNC_BY_OFFSET M_NO_PENDING M_COMMIT_MAJORITY M_NO_K_IN_I M_CACHE_NO_EPOCH M_GROW_NO_EST
 *   M_GROW_NO_CKPT M_GROW_NO_COM M_CKPT_NOT_MIN M_TRIM_AT_COMMIT M_NO_DEDUPE M_NO_VERSION
 *   M_READ_NO_RECHECK M_READ_NO_OWN_COMMIT M_ABSENT_FROM_LOG=1|2|3 M_ACK_BEFORE_FSYNC
 *   M_LOSTTAIL_COUNTS M_LOSTTAIL_OLD_ACKS.  Variants: LOCALP PIPELINE RESUME MIN=1 INIT_I=3
 *   NOREAD NOFENCE NOCACHE NOMEMB.
 */
#ifndef EMAX
#define EMAX 3
#endif
#ifndef L
#define L 3
#endif
#ifndef M
#define M 2
#endif
#ifndef MIN
#define MIN 2
#endif
#ifndef INIT_I
#define INIT_I 7
#endif
#ifdef PROBE
#define EARR (EMAX+2)
#else
#define EARR (EMAX+1)
#endif

/* ---- record and log encoding: a log is one int, 6 bits per record ---------- */
#define MASK(l)    ((1<<(6*(l)))-1)
#define ENT(x,o)   (((x)>>(6*(o)))&63)
#define MK(e,id)   (((e)<<3)|(id))
#define ID(r)      ((r)&7)
#define EPO(r)     ((r)>>3)
#define FENCE      6           /* id of the fence record of message 1 */
#define PROBEID    7
#define CNT(x,i)   ((ID(ENT(x,0))==i)+(ID(ENT(x,1))==i)+(ID(ENT(x,2))==i)+(ID(ENT(x,3))==i))
#define HAS(x,i)   (CNT(x,i)>0)
#define LE1(r,e)   ((r)!=0 && EPO(r)<=(e))
/* number of records of epochs <= e = end offset of epoch e in this log        */
#define ENDOF(x,e) (LE1(ENT(x,0),e)+LE1(ENT(x,1),e)+LE1(ENT(x,2),e)+LE1(ENT(x,3),e))
#define HASE(x,e)  (EPO(ENT(x,0))==(e)||EPO(ENT(x,1))==(e)||EPO(ENT(x,2))==(e)||EPO(ENT(x,3))==(e))
#define EST(n)     ENDOF(log[n],prom[n]-1)     /* start offset of the master's epoch */
#define BIT(n)     (1<<(n))
#define IN(n,S)    (((S)>>(n))&1)
#define CARD(S)    (((S)&1)+(((S)>>1)&1)+(((S)>>2)&1))
#define MIN2(a,b)  ((a)<(b)->(a):(b))
#define MAX2(a,b)  ((a)>(b)->(a):(b))
#define ACK(e,n)   ack[(e)*3+(n)]
#define ISMASTER(n) (role[n]==2)
#define CURRENT(n) (role[n]==2 && prom[n]==se)

/* ---- nodes: durable part ---- */
int  log[3];  byte ln[3];  byte prom[3];
/* ---- nodes: volatile part ---- */
byte role[3];               /* 0 = idle, 1 = slave aligned to epoch prom, 2 = serving master of epoch prom */
byte com[3];                /* commit point known to a master */
byte vI[3];  byte vP[3];    /* a master's view of I and P */
/* ---- network: what the master of epoch e ever sent; what was ever acknowledged under e ---- */
int  elog[EARR]; byte elen[EARR]; byte em[EARR]; byte ack[3*EARR];
/* ---- control store ---- */
byte se, sI, sP, ckpt, cfrom, cto; int cache;
/* ---- ghosts ---- */
int g; byte glen; byte issued;
#ifdef M_ABSENT_FROM_LOG
bit toldabs;
#endif
#ifdef M_READ_NO_RECHECK
#define RDMAX
#endif
#ifdef M_READ_NO_OWN_COMMIT
#define RDMAX
#endif
#ifdef RDMAX
byte rdmax;
#endif
#ifdef M_LIST_BEFORE_TX
byte snap[3];
#endif
#ifdef LOSETAIL
byte dirty; bit lost;      /* nodes that lost synced data and know it; one loss per run */
byte fack[EARR];            /* what the dirty node acknowledged since its loss, per epoch */
#endif
#ifdef M_ACK_BEFORE_FSYNC
#define UNS
#endif
#ifdef PIPELINE
#define UNS
#endif
#ifdef UNS
byte uns[3];                /* records at the end of the log that are written, not yet fsynced */
#define SYNCED(n) (ln[n]-uns[n])
#else
#define SYNCED(n) (ln[n])
#endif
#ifdef ORPHAN
byte okind, onode, osub, oep, oarg;
#define O_SHRINK 1
#define O_PADD 2
#define O_GROW 3
#define O_CKPT 4
#define O_PDEL 5
#endif
bit done;
/* ---- scratch, not part of the state ---- */
#ifdef TRACE
byte n, s, m, x, k, out, e, oldlen; int tv;
#else
hidden byte n, s, m, x, k, out, e, oldlen; hidden int tv;
#endif

/* a master or slave forgets its volatile part */
inline lose_role(i) {
  if
  :: role[i]==2 -> ACK(prom[i],0)=0; ACK(prom[i],1)=0; ACK(prom[i],2)=0
  :: else
  fi;
#ifdef LOSETAIL
  if :: role[i]==2 -> fack[prom[i]]=0 :: else fi;
#endif
  role[i]=0; com[i]=0; vI[i]=0; vP[i]=0;
}
/* messages of an epoch nobody can accept any more are forgotten (state reduction) */
inline gc() {
  e=1;
  do
  :: e<EARR ->
     if
     :: em[e]!=0 && prom[0]>e && prom[1]>e && prom[2]>e ->
        em[e]=0; elog[e]=0; elen[e]=0
     :: else
     fi;
     e++
  :: else -> break
  od; e=0;
}
inline send_ack(i) {           /* node i, aligned to epoch prom[i], durable to ln[i] */
  e=prom[i];
  if
  :: em[e]!=0 && role[em[e]-1]==2 && prom[em[e]-1]==e ->
#ifdef M_ACK_BEFORE_FSYNC
     ACK(e,i)=MAX2(ACK(e,i),ln[i]);
#else
     ACK(e,i)=MAX2(ACK(e,i),SYNCED(i));
#endif
#ifdef LOSETAIL
     if :: IN(i,dirty) -> fack[e]=MAX2(fack[e],ln[i]) :: else fi
#else
     skip
#endif
  :: else
  fi; e=0
}
/* the master n has decided: everything below com[n] is committed (and says so to
   clients and readers). Properties 1..5 are checked here. */
inline decided(i) {
  x=MIN2(com[i],glen);
  assert(((log[i]^g)&MASK(x))==0);                                    /* 2, 3 */
  if
  :: com[i]>glen -> glen=com[i]; g=log[i]&MASK(glen)
  :: else
  fi;
  k=0;
  do
  :: k<3 ->
     if
     :: role[k]==2 && prom[k]>prom[i] ->
        assert(ln[k]>=com[i] && ((log[k]^log[i])&MASK(com[i]))==0)   /* 1 */
     :: else
     fi; k++
  :: else -> break
  od; k=0;
  assert(CNT(g,1)<=1 && CNT(g,2)<=1 && CNT(g,3)<=1);                  /* 4: one place per message */
  assert(!(HAS(g,1) && HAS(g,FENCE)));                                /* 5 */
#ifdef M_ABSENT_FROM_LOG
  assert(!(toldabs && HAS(g,1)));
#endif
  x=0
}
inline do_trim() {
  if
  :: cto>cfrom ->
     cfrom=MAX2(cfrom,ckpt);
#ifdef M_TRIM_AT_COMMIT
     cfrom=MAX2(cfrom,com[n]);
#endif
     cto=MAX2(cto,cfrom);
     cache=cache&(~MASK(cfrom));
     if :: cfrom==cto -> cfrom=0; cto=0; cache=0 :: else fi
  :: else
  fi
}
/* K = n takes over: log[n] is brought in line with the cached chunks */
inline takeover_truncate() {
#ifdef M_APPEND_ONLY_BEYOND_END
  skip
#else
  k=cfrom;
  do
  :: k<cto && k<ln[n] ->
     if
     :: ENT(log[n],k)!=ENT(cache,k) -> ln[n]=k; log[n]=log[n]&MASK(k); break
     :: else -> k++
     fi
  :: else -> break
  od; k=0
#endif
}
inline takeover_append() {
  k=cto;
#ifdef M_LIST_BEFORE_TX
  k=MIN2(cto,snap[n]);
#endif
  if
  :: cto>cfrom && ln[n]<k && ln[n]>=cfrom ->
     log[n]=log[n]|(cache&(MASK(k)&~MASK(ln[n]))); ln[n]=k
  :: else
  fi; k=0
}
inline takeover_serve() {
  role[n]=2; prom[n]=se; vI[n]=sI; vP[n]=0;
  elog[se]=log[n]; elen[se]=ln[n]; em[se]=n+1;
  assert(cto==cfrom || ln[n]>=cfrom);                     /* no gap before the chunks */
  assert(ln[n]>=glen && ((log[n]^g)&MASK(glen))==0);      /* 1 */
  com[n]=MIN2(ln[n],MAX2(ckpt,cto));
  decided(n)
}
inline align(i,ee) {           /* slave i meets the messages of the master of epoch ee */
  if :: role[i]!=0 -> lose_role(i) :: else fi;
  prom[i]=ee; oldlen=ln[i];
#ifdef M_TRUNC_BY_OFFSET
  tv=MIN2(ln[i],ENDOF(elog[ee],ee-1));
  if :: tv<ckpt -> tv=MIN2(ln[i],ckpt) :: else fi;
  ln[i]=tv; log[i]=log[i]&MASK(tv);
#else
  x=ee; tv=0;
  do
  :: x>=1 && HASE(elog[ee],x) && HASE(log[i],x) ->
     tv=MIN2(ENDOF(elog[ee],x),ENDOF(log[i],x)); break
  :: x>=1 && !(HASE(elog[ee],x) && HASE(log[i],x)) -> x--
  :: x==0 -> break
  od; x=0;
  /* log matching: the epoch tables find exactly the common prefix */
  assert(((log[i]^elog[ee])&MASK(tv))==0);
  assert(tv==ln[i] || tv==elen[ee] || ENT(log[i],tv)!=ENT(elog[ee],tv));
#ifdef CHK_NOCUT  /* stronger than needed: fails, harmlessly, see head */
  /* nothing committed is cut */
  assert(tv>=ln[i] || tv>=glen || ((log[i]^g)&MASK(MIN2(ln[i],glen)))!=0 );
#endif
#ifdef UNS
  uns[i]=MAX2(0,uns[i]-(ln[i]-tv));
#endif
  ln[i]=tv; log[i]=log[i]&MASK(tv);
#endif
  tv=0; oldlen=0; role[i]=1;
  send_ack(i); gc()
}
inline accept(i) {
  log[i]=log[i]|(ENT(elog[prom[i]],ln[i])<<(6*ln[i])); ln[i]++;
#ifdef M_ACK_BEFORE_FSYNC
  uns[i]++;
#endif
  send_ack(i)
}
inline append(i,id) {
  tv=MK(prom[i],id)<<(6*ln[i]);
  log[i]=log[i]|tv; ln[i]++;
#ifdef PIPELINE
  uns[i]++;
#endif
  elog[prom[i]]=log[i]; elen[prom[i]]=ln[i]; tv=0
}

/* guards */
#define ACKED(n,s,x)  (((s)==(n) && SYNCED(n)>=(x)) || ACK(prom[n],s)>=(x))
#define NEED(n,S,x)   ((!IN(0,S)||ACKED(n,0,x)) && (!IN(1,S)||ACKED(n,1,x)) && (!IN(2,S)||ACKED(n,2,x)))
#ifdef M_NO_PENDING
#define COMSET(n) (vI[n])
#else
#define COMSET(n) (vI[n]|vP[n])
#endif
#ifdef M_COMMIT_MAJORITY
#define CANCOM(n) (ACKED(n,0,com[n]+1)+ACKED(n,1,com[n]+1)+ACKED(n,2,com[n]+1)>=2)
#else
#define CANCOM(n) NEED(n,COMSET(n),com[n]+1)
#endif
#ifdef M_NO_K_IN_I
#define KOK(n) 1
#else
#define KOK(n) IN(n,sI)
#endif
#ifdef M_CACHE_NO_EPOCH
#define PUTOK(n) (role[n]==2)
#else
#define PUTOK(n) CURRENT(n)
#endif
#ifdef M_GROW_NO_EST
#define G_EST(n,s) 1
#else
#define G_EST(n,s) (ACK(prom[n],s)>=EST(n))
#endif
#ifdef M_GROW_NO_CKPT
#define G_CK(n,s) 1
#else
#define G_CK(n,s) (ACK(prom[n],s)>=ckpt && ACK(prom[n],s)>=cfrom)
#endif
#ifdef M_GROW_NO_COM
#define G_COM(n,s) 1
#else
#define G_COM(n,s) (ACK(prom[n],s)>=com[n])
#endif
#ifdef M_NO_PENDING
#define G_PEND(n,s) 1
#else
#ifdef LOCALP
#define G_PEND(n,s) (IN(s,vP[n]))
#else
#define G_PEND(n,s) (IN(s,vP[n]) && IN(s,sP))
#endif
#endif
#ifdef LOSETAIL
#ifdef M_LOSTTAIL_OLD_ACKS
#define G_INC(n,s) 1
#else
#define G_INC(n,s) (!IN(s,dirty) || (fack[prom[n]]>=com[n] && fack[prom[n]]>=EST(n) && fack[prom[n]]>=ckpt))
#endif
#else
#define G_INC(n,s) 1
#endif
#define GROWOK(n,s) (!IN(s,sI) && G_INC(n,s) && G_PEND(n,s) && G_COM(n,s) && G_EST(n,s) && G_CK(n,s))
#ifdef M_CKPT_NOT_MIN       /* checkpoint without waiting for the slowest: some member suffices */
#define CKSET(n,x) (NEED(n,sI&1,x)||NEED(n,sI&2,x)||NEED(n,sI&4,x))
#else
#define CKSET(n,x) NEED(n,vI[n],x)
#endif
#ifdef M_NO_DEDUPE
#define NODUP(n,m) 1
#else
#define NODUP(n,m) (!HAS(log[n],m))
#endif
#ifdef M_NO_VERSION
#define FRESH(n) 1
#else
#ifdef LOCALP
#define FRESH(n) (vI[n]==sI)
#else
#define FRESH(n) (vI[n]==sI && vP[n]==sP)
#endif
#endif
#ifdef LOSETAIL
#ifdef M_LOSTTAIL_COUNTS
#define CLEAN(n) 1
#else
#define CLEAN(n) (!IN(n,dirty))
#endif
#else
#define CLEAN(n) 1
#endif
/* a membership transaction was applied: requests in flight that compare the version now fail */
inline bump() {
#ifdef ORPHAN
#ifndef M_NO_VERSION
  okind=0; onode=0; osub=0; oep=0; oarg=0;
#endif
#endif
  skip
}

active proctype world() {
  d_step {
    se=1; sI=INIT_I;
    prom[0]=1; prom[1]=1; prom[2]=1;
    role[0]=2; vI[0]=INIT_I; em[1]=1;
  }
end:
  do
  :: done==0 -> atomic {
     if :: n=0 :: n=1 :: n=2 fi;
     if
     /* ---- crash and restart; also "steps down" ---- */
     :: role[n]!=0 -> d_step { lose_role(n);
#ifdef UNS
          ln[n]=ln[n]-uns[n]; uns[n]=0; log[n]=log[n]&MASK(ln[n]);
#endif
#ifdef M_PROMISE_VOLATILE
          prom[n]=1;
          if :: ln[n]>0 -> prom[n]=EPO(ENT(log[n],ln[n]-1)) :: else fi;
#endif
        }
#ifdef M_PROMISE_VOLATILE
     :: role[n]==0 && ln[n]>0 && prom[n]>EPO(ENT(log[n],ln[n]-1)) -> d_step { prom[n]=EPO(ENT(log[n],ln[n]-1)) }
     :: role[n]==0 && ln[n]==0 && prom[n]>1 -> d_step { prom[n]=1 }
#endif
#ifdef UNS
     :: uns[n]>0 -> d_step { uns[n]=0; if :: role[n]==1 -> send_ack(n) :: else fi }
#endif
#ifdef RESUME
     /* a restarted master goes on in its old epoch instead of taking a new one */
     :: role[n]==0 && prom[n]==se && em[se]==n+1 -> d_step { role[n]=2; vI[n]=sI; vP[n]=sP;
          elog[se]=log[n]; elen[se]=ln[n]; com[n]=MIN2(ln[n],MAX2(ckpt,cto)); decided(n) }
#endif
#ifdef PROBE
#if PROBE==1   /* progress, everybody up: a member of I takes a new epoch, all follow, a new record commits */
     :: IN(n,sI) && CLEAN(n) -> d_step {
          se++; sP=0; lose_role(n); takeover_truncate(); takeover_append(); takeover_serve();
          append(n,PROBEID);
          m=0;
          do
          :: m<3 && m!=n -> align(m,se);
             do :: ln[m]<ln[n] -> accept(m) :: else -> break od; m++
          :: m<3 && m==n -> m++
          :: else -> break
          od;
          do :: com[n]<ln[n] && CANCOM(n) -> com[n]=com[n]+1; decided(n) :: else -> break od;
          assert(com[n]==ln[n]); done=1 }
#endif
#if PROBE==2   /* progress, one member of I and the store up: a new record commits through the cache */
     :: IN(n,sI) && CLEAN(n) -> d_step {
          se++; sP=0; lose_role(n); takeover_truncate(); takeover_append(); takeover_serve();
          append(n,PROBEID);
          if :: cto==cfrom -> cfrom=ckpt; cto=ckpt :: else fi;
          cache=log[n]&(MASK(ln[n])&~MASK(cfrom)); cto=ln[n]; com[n]=cto; decided(n);
          assert(com[n]==ln[n]); done=1 }
#endif
#if PROBE==3   /* progress without a new epoch: expected to fail */
     :: CURRENT(n) -> d_step {
          append(n,PROBEID);
          m=0;
          do
          :: m<3 && m!=n && prom[m]<=se -> align(m,se);
             do :: ln[m]<ln[n] -> accept(m) :: else -> break od; m++
          :: m<3 && (m==n || prom[m]>se) -> m++
          :: else -> break
          od;
          do :: com[n]<ln[n] && CANCOM(n) -> com[n]=com[n]+1; decided(n) :: else -> break od;
          assert(com[n]==ln[n]); done=1 }
#endif
#endif
     /* ---- candidate promises (durable) ---- */
#ifndef M_PROMISE_AT_TX
     :: se<EMAX && prom[n]<=se && KOK(n) && CLEAN(n) -> d_step { lose_role(n); prom[n]=se+1;
#ifdef M_LIST_BEFORE_TX
          snap[n]=cto;
#endif
          gc() }
     :: se<EMAX && prom[n]==se+1 && KOK(n) && CLEAN(n) ->
#else
     :: se<EMAX && prom[n]<=se && KOK(n) && CLEAN(n) ->
#endif
        /* ---- the switch transaction ---- */
        if :: out=0 :: out=1 :: out=2 :: out=3 fi;
        d_step {
          se++; sP=0; bump();
#ifdef UNS
          uns[n]=0;
#endif
          if
          :: out==0 -> skip                                     /* answer lost, or crash before anything is written */
          :: out==1 -> lose_role(n); prom[n]=se; takeover_truncate()           /* crash after the truncation */
          :: out==2 -> lose_role(n); prom[n]=se; takeover_truncate(); takeover_append()   /* crash before the epoch start is written */
          :: out==3 -> lose_role(n); takeover_truncate(); takeover_append(); takeover_serve()
          fi;
#ifdef M_LIST_BEFORE_TX
          snap[n]=0;
#endif
          gc(); out=0
        }
     /* ---- slave meets a master's messages ---- */
     :: (em[1]!=0 && em[1]!=n+1 && prom[n]<=1 && !(role[n]==1 && prom[n]==1)) -> d_step { align(n,1) }
     :: (em[2]!=0 && em[2]!=n+1 && prom[n]<=2 && !(role[n]==1 && prom[n]==2)) -> d_step { align(n,2) }
#if EMAX>2
     :: (em[3]!=0 && em[3]!=n+1 && prom[n]<=3 && !(role[n]==1 && prom[n]==3)) -> d_step { align(n,3) }
#endif
#if EMAX>3
     :: (em[4]!=0 && em[4]!=n+1 && prom[n]<=4 && !(role[n]==1 && prom[n]==4)) -> d_step { align(n,4) }
#endif
     :: role[n]==1 && em[prom[n]]!=0 && ln[n]<elen[prom[n]] -> d_step { accept(n) }
#ifdef LOSETAIL
     :: lost==0 && ln[n]>0 -> d_step { lose_role(n); lost=1; fack[1]=0; fack[2]=0; dirty=dirty|BIT(n); ln[n]=ln[n]-1; log[n]=log[n]&MASK(ln[n]) }
#endif
     /* ---- master ---- */
     :: role[n]==2 ->
        if
        :: ln[n]<L ->
           if :: m=1 :: m=2 :: m=3 fi;
           if
           :: m<=M && m<=issued+1 && NODUP(n,m) && (m!=1 || !HAS(log[n],FENCE)) &&
#ifdef M_ABSENT_FROM_LOG
              (M_ABSENT_FROM_LOG==1 || m!=1 || !toldabs) &&
#endif
              1 -> d_step { append(n,m); issued=MAX2(issued,m) }
#ifndef NOFENCE
           :: m==1 && issued>=1 && !HAS(log[n],1) && !HAS(log[n],FENCE) -> d_step { append(n,FENCE) }
#endif
           :: else
           fi
        :: com[n]<SYNCED(n) && CANCOM(n) -> d_step { com[n]=com[n]+1; decided(n) }
#ifndef NOCACHE
        /* put the next record; answered or lost */
        :: PUTOK(n) && MAX2(cto,ckpt)<ln[n] ->
           if :: out=0 :: out=1 fi;
           d_step {
             if :: cto==cfrom -> cfrom=ckpt; cto=ckpt :: else fi;
             cache=cache|(log[n]&(63<<(6*cto))); cto++;
             if :: out==1 && cto<=SYNCED(n) -> com[n]=MAX2(com[n],cto); decided(n) :: else fi; out=0
           }
        :: CURRENT(n) && cto>com[n] && cto<=SYNCED(n) -> d_step { com[n]=cto; decided(n) }
#endif
        /* checkpoint and trim, one transaction */
        :: CURRENT(n) && FRESH(n) && ckpt<ln[n] && CKSET(n,ckpt+1) -> d_step { ckpt++; do_trim(); bump() }
#ifdef M_TRIM_AT_COMMIT
        :: CURRENT(n) && cto>cfrom && com[n]>cfrom -> d_step { do_trim() }
#endif
#ifndef M_NO_VERSION
        :: CURRENT(n) && !FRESH(n) -> d_step { vI[n]=sI;
#else
        :: CURRENT(n) && (vI[n]!=sI || vP[n]!=sP) -> d_step { vI[n]=sI;
#endif
#ifndef LOCALP
             vP[n]=sP
#endif
           }
        /* readers: the answer is the whole committed prefix */
        :: 
#ifndef M_READ_NO_RECHECK
           CURRENT(n) &&
#endif
#ifndef M_READ_NO_OWN_COMMIT
           com[n]>=EST(n) &&
#endif
#ifdef NOREAD
           0 &&
#endif
           ISMASTER(n) -> 
#ifdef RDMAX
           d_step { assert(com[n]>=rdmax); rdmax=com[n] }
#else
           d_step { assert(com[n]==glen) }
#endif
#ifdef M_ABSENT_FROM_LOG   /* 1: any master; 2: master with a commit in its epoch and a fresh check of the store */
        :: issued>=1 && !toldabs && !HAS(log[n],1) && !HAS(g,1) &&
#if M_ABSENT_FROM_LOG>1
           com[n]>=EST(n) && CURRENT(n) &&
#endif
#if M_ABSENT_FROM_LOG>2
           EST(n)<com[n] &&
#endif
           ISMASTER(n) -> d_step { toldabs=1 }
#endif
#ifndef NOMEMB
        :: CURRENT(n) ->
           if :: s=0 :: s=1 :: s=2 fi;
           if :: out=0 :: out=1 fi;        /* 0 = answer lost, 1 = answered */
           if
           :: CURRENT(n) && FRESH(n) && s!=n && IN(s,sI) && CARD(sI)>MIN -> d_step {
                sI=sI&~BIT(s); bump(); if :: out==1 -> vI[n]=sI :: else fi; out=0 }
#ifndef M_NO_PENDING
#ifdef LOCALP
           :: s!=n && !IN(s,vI[n]) && !IN(s,vP[n]) -> d_step { vP[n]=vP[n]|BIT(s); out=0 }
#else
           :: CURRENT(n) && FRESH(n) && s!=n && !IN(s,sI) && !IN(s,sP) -> d_step {
                sP=sP|BIT(s); bump(); if :: out==1 -> vP[n]=sP; vI[n]=sI :: else fi; out=0 }
#ifdef ORPHAN
           :: CURRENT(n) && FRESH(n) && IN(s,sP) -> d_step {
                sP=sP&~BIT(s); bump(); if :: out==1 -> vP[n]=sP; vI[n]=sI :: else fi; out=0 }
#endif
#endif
#endif
           :: CURRENT(n) && FRESH(n) && s!=n && GROWOK(n,s) -> d_step {
                sI=sI|BIT(s); sP=sP&~BIT(s); bump();
#ifdef LOSETAIL
#ifndef M_LOSTTAIL_OLD_ACKS
                if :: IN(s,dirty) -> ACK(prom[n],s)=fack[prom[n]]; fack[prom[n]]=0 :: else fi;
#endif
                dirty=dirty&~BIT(s);
#endif
                if
                :: out==1 -> vI[n]=sI;
#ifdef LOCALP
                   vP[n]=vP[n]&~BIT(s)
#else
                   vP[n]=sP
#endif
                :: else
                fi; out=0 }
#ifdef ORPHAN
           /* the request is sent, the caller times out, it is applied later or never */
           :: okind==0 && CURRENT(n) && FRESH(n) && s!=n && GROWOK(n,s) -> d_step { okind=O_GROW; osub=s; oep=prom[n]; out=0 }
           :: okind==0 && CURRENT(n) && FRESH(n) && s==n && ckpt<ln[n] && CKSET(n,ckpt+1) -> d_step { okind=O_CKPT; oarg=ckpt+1; oep=prom[n]; out=0 }
           :: okind==0 && CURRENT(n) && FRESH(n) && s!=n && IN(s,sI) && CARD(sI)>MIN -> d_step { okind=O_SHRINK; osub=s; oep=prom[n]; out=0 }
           :: okind==0 && CURRENT(n) && FRESH(n) && IN(s,sP) -> d_step { okind=O_PDEL; osub=s; oep=prom[n]; out=0 }
#endif
           :: else -> d_step { out=0 }
           fi
#endif
        :: else
        fi
#ifdef ORPHAN
     :: n==0 && okind!=0 && oep==se -> d_step {
          if
          :: okind==O_GROW && (IN(osub,sP)) -> sI=sI|BIT(osub); sP=sP&~BIT(osub)
          :: okind==O_CKPT && oarg>ckpt -> ckpt=oarg; do_trim()
          :: okind==O_SHRINK && CARD(sI)>MIN -> sI=sI&~BIT(osub)
          :: okind==O_PDEL -> sP=sP&~BIT(osub)
          :: else
          fi;
          okind=0; onode=0; osub=0; oep=0; oarg=0 }
     :: n==0 && okind!=0 -> d_step { okind=0; onode=0; osub=0; oep=0; oarg=0 }
#endif
     :: else
     fi;
#ifdef TRACE
     printf("NODE %d [s=%d m=%d] | store e=%d I=%d P=%d ckpt=%d cache[%d,%d)=%o\n",n,s,m,se,sI,sP,ckpt,cfrom,cto,cache);
     printf("   A: log=%o ln=%d prom=%d role=%d com=%d", log[0],ln[0],prom[0],role[0],com[0]);
     printf(" vI=%d vP=%d\n", vI[0],vP[0]);
     printf("   B: log=%o ln=%d prom=%d role=%d com=%d", log[1],ln[1],prom[1],role[1],com[1]);
     printf(" vI=%d vP=%d\n", vI[1],vP[1]);
     printf("   C: log=%o ln=%d prom=%d role=%d com=%d", log[2],ln[2],prom[2],role[2],com[2]);
     printf(" vI=%d vP=%d  glen=%d g=%o\n", vI[2],vP[2],glen,g);
#endif
     n=0; s=0; m=0; out=0
     }
  od
}
