CREATE FUNCTION public.count_jobs() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        UPDATE job_count SET n = n - 1 WHERE status = old.status AND old.deleted_at IS NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        UPDATE job_count SET n = n + 1 WHERE status = new.status AND new.deleted_at IS NULL;
    END IF;
    RETURN NULL;
END
$$;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.alert (
    id bigint NOT NULL,
    channel text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    subject text NOT NULL COLLATE pg_catalog."C",
    payload text NOT NULL COLLATE pg_catalog."C",
    suppressed bigint DEFAULT 0 NOT NULL,
    due_at bigint NOT NULL,
    next_at bigint,
    tries bigint DEFAULT 0 NOT NULL,
    error text COLLATE pg_catalog."C",
    sent_at bigint
);
CREATE SEQUENCE public.alert_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.alert_id_seq OWNED BY public.alert.id;
CREATE TABLE public.alert_position (
    seq bigint NOT NULL
);
CREATE SEQUENCE public.alert_position_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.alert_position_seq_seq OWNED BY public.alert_position.seq;
CREATE TABLE public.attempt (
    id bigint NOT NULL,
    job_id bigint NOT NULL,
    number bigint DEFAULT 0 NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    worker_id bigint NOT NULL,
    worker text NOT NULL COLLATE pg_catalog."C",
    instance text NOT NULL COLLATE pg_catalog."C",
    encoder text COLLATE pg_catalog."C",
    argv text DEFAULT '[]'::text NOT NULL COLLATE pg_catalog."C",
    steps text DEFAULT '{}'::text NOT NULL COLLATE pg_catalog."C",
    resumed_from bigint,
    resumed_at_s double precision,
    started_at bigint NOT NULL,
    ended_at bigint,
    last_progress_at bigint,
    outcome text DEFAULT 'running'::text NOT NULL COLLATE pg_catalog."C",
    answer text COLLATE pg_catalog."C",
    error_code text COLLATE pg_catalog."C",
    error_text text COLLATE pg_catalog."C",
    log text COLLATE pg_catalog."C",
    cpu_s double precision,
    peak_memory_bytes bigint,
    CONSTRAINT ck_attempt_outcome CHECK ((outcome = ANY (ARRAY['running'::text, 'done'::text, 'failed'::text, 'lost'::text, 'paused'::text, 'cancelled'::text, 'released'::text])))
);
CREATE SEQUENCE public.attempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.attempt_id_seq OWNED BY public.attempt.id;
CREATE TABLE public.deletion (
    video_id bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT ck_deletion_state CHECK ((state = ANY (ARRAY['trashing'::text, 'trashed'::text, 'restoring'::text, 'purging'::text])))
);
CREATE TABLE public.delivery (
    id bigint NOT NULL,
    video_id bigint NOT NULL,
    number bigint DEFAULT 0 NOT NULL,
    job_id bigint,
    url text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    files bigint DEFAULT 0 NOT NULL,
    files_done bigint DEFAULT 0 NOT NULL,
    tries bigint DEFAULT 0 NOT NULL,
    code text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    hint text COLLATE pg_catalog."C",
    next_at bigint,
    delivered_at bigint,
    evicted_at bigint,
    CONSTRAINT ck_delivery_state CHECK ((state = ANY (ARRAY['waiting'::text, 'delivered'::text, 'unpublishing'::text, 'removing'::text])))
);
CREATE SEQUENCE public.delivery_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.delivery_id_seq OWNED BY public.delivery.id;
CREATE TABLE public.event (
    seq bigint NOT NULL,
    at bigint NOT NULL,
    trigger text NOT NULL COLLATE pg_catalog."C",
    job_id bigint,
    video_id bigint,
    worker text COLLATE pg_catalog."C",
    source text COLLATE pg_catalog."C",
    target text COLLATE pg_catalog."C",
    actor text NOT NULL COLLATE pg_catalog."C",
    code text COLLATE pg_catalog."C",
    detail text COLLATE pg_catalog."C",
    CONSTRAINT ck_event_detail CHECK (((detail IS NULL) OR (length(detail) <= 500)))
);
CREATE SEQUENCE public.event_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.event_seq_seq OWNED BY public.event.seq;
CREATE TABLE public.folder (
    id bigint NOT NULL,
    path bytea NOT NULL,
    output_root bytea NOT NULL,
    profile text NOT NULL COLLATE pg_catalog."C",
    watch text DEFAULT 'auto'::text NOT NULL COLLATE pg_catalog."C",
    enabled bigint DEFAULT 1 NOT NULL,
    recursive bigint DEFAULT 1 NOT NULL,
    patterns text DEFAULT '[]'::text NOT NULL COLLATE pg_catalog."C",
    settle_s double precision,
    priority bigint DEFAULT 0 NOT NULL,
    created_at bigint NOT NULL,
    autorestart_limit bigint DEFAULT 0 NOT NULL,
    autorestart_delay_s double precision DEFAULT 0 NOT NULL,
    exclude text DEFAULT '[]'::text NOT NULL COLLATE pg_catalog."C",
    after_done text DEFAULT 'keep'::text NOT NULL COLLATE pg_catalog."C",
    done_dir bytea,
    duplicates text DEFAULT 'encode'::text NOT NULL COLLATE pg_catalog."C",
    template text DEFAULT '{slug}'::text NOT NULL COLLATE pg_catalog."C",
    audio text DEFAULT 'skip'::text NOT NULL COLLATE pg_catalog."C",
    max_attempts bigint,
    max_crashes bigint,
    hours text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);
CREATE SEQUENCE public.folder_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.folder_id_seq OWNED BY public.folder.id;
CREATE TABLE public.gate (
    kind text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    path bytea,
    since bigint NOT NULL,
    until bigint,
    CONSTRAINT ck_gate_kind CHECK ((kind = ANY (ARRAY['user'::text, 'disk'::text, 'load'::text, 'hours'::text])))
);
CREATE TABLE public.generation (
    id bigint NOT NULL,
    video_id bigint NOT NULL,
    number bigint DEFAULT 0 NOT NULL,
    settings_hash text NOT NULL COLLATE pg_catalog."C",
    omitted text DEFAULT '{}'::text NOT NULL COLLATE pg_catalog."C",
    poster text COLLATE pg_catalog."C",
    published_at bigint NOT NULL,
    retired_at bigint,
    removed_at bigint,
    files text DEFAULT '[]'::text NOT NULL COLLATE pg_catalog."C"
);
CREATE SEQUENCE public.generation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.generation_id_seq OWNED BY public.generation.id;
CREATE TABLE public.idempotency (
    key text NOT NULL COLLATE pg_catalog."C",
    answer text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL
);
CREATE TABLE public.job (
    id bigint NOT NULL,
    video_id bigint NOT NULL,
    batch text COLLATE pg_catalog."C",
    kind text DEFAULT 'new'::text NOT NULL COLLATE pg_catalog."C",
    profile text NOT NULL COLLATE pg_catalog."C",
    profile_json text NOT NULL COLLATE pg_catalog."C",
    unprobed bigint DEFAULT 0 NOT NULL,
    prefer_gpu bigint DEFAULT 0 NOT NULL,
    requested text COLLATE pg_catalog."C",
    dropped text DEFAULT '[]'::text NOT NULL COLLATE pg_catalog."C",
    status text DEFAULT 'pending'::text NOT NULL COLLATE pg_catalog."C",
    step text COLLATE pg_catalog."C",
    progress double precision DEFAULT 0 NOT NULL,
    priority bigint DEFAULT 0 NOT NULL,
    not_before bigint,
    ready_at bigint,
    attempts bigint DEFAULT 0 NOT NULL,
    crashes bigint DEFAULT 0 NOT NULL,
    segments_at_crash bigint DEFAULT 0 NOT NULL,
    resumed_at_crash_s double precision DEFAULT 0 NOT NULL,
    starts_over bigint DEFAULT 0 NOT NULL,
    max_attempts bigint DEFAULT 3 NOT NULL,
    max_crashes bigint DEFAULT 3 NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    supervisor_id bigint,
    worker_id bigint,
    instance text COLLATE pg_catalog."C",
    claimed_at bigint,
    control text DEFAULT 'none'::text NOT NULL COLLATE pg_catalog."C",
    error_code text COLLATE pg_catalog."C",
    error_text text COLLATE pg_catalog."C",
    error_hint text COLLATE pg_catalog."C",
    error_log text COLLATE pg_catalog."C",
    exhausted bigint DEFAULT 0 NOT NULL,
    autorestart text DEFAULT 'disabled'::text NOT NULL COLLATE pg_catalog."C",
    autorestart_limit bigint DEFAULT 0 NOT NULL,
    autorestart_delay_s double precision DEFAULT 0 NOT NULL,
    restarts bigint DEFAULT 0 NOT NULL,
    last_restart_at bigint,
    processed_by_id bigint,
    processed_by text COLLATE pg_catalog."C",
    metadata_json text DEFAULT '{}'::text NOT NULL COLLATE pg_catalog."C",
    warnings text DEFAULT '[]'::text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    started_at bigint,
    last_progress_at bigint,
    completed_at bigint,
    deleted_at bigint,
    predicted_s double precision,
    actual_s double precision,
    idempotency_key text COLLATE pg_catalog."C",
    from_folder bigint DEFAULT 0 NOT NULL,
    owner text DEFAULT 'user'::text NOT NULL COLLATE pg_catalog."C",
    changes text DEFAULT '[]'::text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT ck_job_autorestart CHECK ((autorestart = ANY (ARRAY['disabled'::text, 'enabled'::text, 'in_progress'::text, 'failed'::text, 'denied'::text]))),
    CONSTRAINT ck_job_control CHECK ((control = ANY (ARRAY['none'::text, 'pause'::text, 'cancel'::text, 'restart'::text]))),
    CONSTRAINT ck_job_control_of_running CHECK (((status = 'in_progress'::text) OR (control = 'none'::text))),
    CONSTRAINT ck_job_counters CHECK (((attempts <= max_attempts) AND (crashes <= max_crashes))),
    CONSTRAINT ck_job_kind CHECK ((kind = ANY (ARRAY['new'::text, 'retranscode'::text, 'changed'::text]))),
    CONSTRAINT ck_job_lease CHECK ((((status = 'in_progress'::text) = (supervisor_id IS NOT NULL)) AND ((status = 'in_progress'::text) = (worker_id IS NOT NULL)) AND ((status = 'in_progress'::text) = (instance IS NOT NULL)))),
    CONSTRAINT ck_job_status CHECK ((status = ANY (ARRAY['pending'::text, 'in_progress'::text, 'paused'::text, 'done'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT ck_job_step CHECK (((step IS NULL) OR (step = ANY (ARRAY['probe'::text, 'extras'::text, 'transcode'::text, 'master_playlist'::text, 'finalize'::text]))))
);
CREATE TABLE public.job_count (
    status text NOT NULL COLLATE pg_catalog."C",
    n bigint DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.job_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.job_id_seq OWNED BY public.job.id;
CREATE TABLE public.publication (
    job_id bigint NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    video_id bigint NOT NULL,
    number bigint DEFAULT 0 NOT NULL,
    slug text NOT NULL COLLATE pg_catalog."C",
    manifest text NOT NULL COLLATE pg_catalog."C",
    full_hash text COLLATE pg_catalog."C",
    begun_at bigint NOT NULL
);
CREATE TABLE public.published_rendition (
    id bigint NOT NULL,
    generation_id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    width bigint,
    height bigint,
    frame_rate double precision,
    codecs text NOT NULL COLLATE pg_catalog."C",
    duration_s double precision DEFAULT 0 NOT NULL,
    average_bps bigint DEFAULT 0 NOT NULL,
    peak_bps bigint DEFAULT 0 NOT NULL,
    size bigint NOT NULL,
    settings_hash text NOT NULL COLLATE pg_catalog."C",
    stream_key text NOT NULL COLLATE pg_catalog."C",
    language text COLLATE pg_catalog."C",
    title text COLLATE pg_catalog."C",
    channels bigint,
    is_default bigint DEFAULT 0 NOT NULL,
    files text NOT NULL COLLATE pg_catalog."C",
    role text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    surround_of text COLLATE pg_catalog."C",
    video_range text DEFAULT 'SDR'::text NOT NULL COLLATE pg_catalog."C"
);
CREATE SEQUENCE public.published_rendition_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.published_rendition_id_seq OWNED BY public.published_rendition.id;
CREATE TABLE public.rendition (
    job_id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    "position" bigint DEFAULT 0 NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL COLLATE pg_catalog."C",
    reason text COLLATE pg_catalog."C",
    required bigint DEFAULT 1 NOT NULL,
    width bigint,
    height bigint,
    encoder text COLLATE pg_catalog."C",
    progress double precision DEFAULT 0 NOT NULL,
    segments_done bigint DEFAULT 0 NOT NULL,
    segments_total bigint,
    speed double precision,
    settings_hash text COLLATE pg_catalog."C",
    stream_key text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    started_at bigint,
    completed_at bigint,
    CONSTRAINT ck_rendition_status CHECK ((status = ANY (ARRAY['pending'::text, 'in_progress'::text, 'completed'::text, 'failed'::text, 'skipped'::text])))
);
CREATE TABLE public.source_removal (
    job_id bigint NOT NULL,
    video_id bigint NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    inode bigint NOT NULL,
    ctime_ns bigint NOT NULL,
    target bytea,
    begun_at bigint
);
CREATE TABLE public.speed (
    key text NOT NULL COLLATE pg_catalog."C",
    value double precision DEFAULT 0 NOT NULL,
    samples bigint DEFAULT 0 NOT NULL,
    work_s double precision DEFAULT 0 NOT NULL,
    at bigint NOT NULL
);
CREATE TABLE public.standby (
    home text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL COLLATE pg_catalog."C",
    seen_at bigint NOT NULL
);
CREATE TABLE public.statistic (
    at bigint NOT NULL,
    job_id bigint NOT NULL,
    epoch bigint NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    worker text NOT NULL COLLATE pg_catalog."C",
    batch text COLLATE pg_catalog."C",
    wall_s double precision DEFAULT 0 NOT NULL,
    cpu_s double precision DEFAULT 0 NOT NULL,
    media_s double precision DEFAULT 0 NOT NULL,
    bytes_in bigint DEFAULT 0 NOT NULL,
    bytes_out bigint DEFAULT 0 NOT NULL,
    eta_error_percent bigint
);
CREATE TABLE public.supervisor (
    id bigint NOT NULL,
    store_uuid text NOT NULL COLLATE pg_catalog."C",
    pid bigint,
    version text COLLATE pg_catalog."C",
    started_at bigint,
    expires_at bigint NOT NULL,
    home text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    name text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    url text COLLATE pg_catalog."C",
    certificate text COLLATE pg_catalog."C"
);
CREATE SEQUENCE public.supervisor_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.supervisor_id_seq OWNED BY public.supervisor.id;
CREATE TABLE public.token (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL COLLATE pg_catalog."C",
    prefix text NOT NULL COLLATE pg_catalog."C",
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    worker_id bigint,
    created_at bigint NOT NULL,
    expires_at bigint,
    max_workers bigint,
    CONSTRAINT ck_token_role CHECK ((role = ANY (ARRAY['view'::text, 'operate'::text, 'admin'::text, 'worker'::text, 'join'::text])))
);
CREATE SEQUENCE public.token_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.token_id_seq OWNED BY public.token.id;
CREATE TABLE public.undo (
    id bigint NOT NULL,
    actor text NOT NULL COLLATE pg_catalog."C",
    operation text NOT NULL COLLATE pg_catalog."C",
    bulk text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL
);
CREATE SEQUENCE public.undo_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.undo_id_seq OWNED BY public.undo.id;
CREATE TABLE public.undo_step (
    undo_id bigint NOT NULL,
    subject bigint NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    before bigint DEFAULT 0 NOT NULL,
    former text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.upload (
    id text NOT NULL COLLATE pg_catalog."C",
    size bigint NOT NULL,
    received bigint DEFAULT 0 NOT NULL,
    upload_metadata text NOT NULL COLLATE pg_catalog."C",
    actor text NOT NULL COLLATE pg_catalog."C",
    expires_at bigint NOT NULL,
    path bytea,
    answer text COLLATE pg_catalog."C",
    url text COLLATE pg_catalog."C",
    version text COLLATE pg_catalog."C",
    output_root bytea
);
CREATE TABLE public.video (
    id bigint NOT NULL,
    folder_id bigint,
    source bytea NOT NULL,
    output_root bytea NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    name_lower text NOT NULL COLLATE pg_catalog."C",
    title text NOT NULL COLLATE pg_catalog."C",
    slug text NOT NULL COLLATE pg_catalog."C",
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    quick_hash text COLLATE pg_catalog."C",
    full_hash text COLLATE pg_catalog."C",
    facts text COLLATE pg_catalog."C",
    probe_error text COLLATE pg_catalog."C",
    inode bigint,
    generation_id bigint,
    created_at bigint NOT NULL,
    deleted_at bigint,
    source_deleted_at bigint,
    crfs text DEFAULT '[]'::text NOT NULL COLLATE pg_catalog."C",
    viewable text COLLATE pg_catalog."C",
    length_ms bigint DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.video_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.video_id_seq OWNED BY public.video.id;
CREATE TABLE public.worker (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    type text DEFAULT 'local'::text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    device text COLLATE pg_catalog."C",
    encoder text COLLATE pg_catalog."C",
    enabled bigint DEFAULT 1 NOT NULL,
    draining bigint DEFAULT 0 NOT NULL,
    instance text COLLATE pg_catalog."C",
    pid bigint,
    pid_started double precision,
    capabilities text DEFAULT '{}'::text NOT NULL COLLATE pg_catalog."C",
    metadata_json text DEFAULT '{}'::text NOT NULL COLLATE pg_catalog."C",
    registered_at bigint,
    last_heartbeat_at bigint,
    offline_at bigint,
    suspected_at bigint,
    quarantined_at bigint,
    quarantine_reason text COLLATE pg_catalog."C",
    failed_jobs text DEFAULT '[]'::text NOT NULL COLLATE pg_catalog."C",
    joined_by text COLLATE pg_catalog."C",
    CONSTRAINT ck_worker_kind CHECK ((kind = ANY (ARRAY['cpu'::text, 'gpu'::text])))
);
CREATE SEQUENCE public.worker_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.worker_id_seq OWNED BY public.worker.id;
ALTER TABLE ONLY public.alert ALTER COLUMN id SET DEFAULT nextval('public.alert_id_seq'::regclass);
ALTER TABLE ONLY public.alert_position ALTER COLUMN seq SET DEFAULT nextval('public.alert_position_seq_seq'::regclass);
ALTER TABLE ONLY public.attempt ALTER COLUMN id SET DEFAULT nextval('public.attempt_id_seq'::regclass);
ALTER TABLE ONLY public.delivery ALTER COLUMN id SET DEFAULT nextval('public.delivery_id_seq'::regclass);
ALTER TABLE ONLY public.event ALTER COLUMN seq SET DEFAULT nextval('public.event_seq_seq'::regclass);
ALTER TABLE ONLY public.folder ALTER COLUMN id SET DEFAULT nextval('public.folder_id_seq'::regclass);
ALTER TABLE ONLY public.generation ALTER COLUMN id SET DEFAULT nextval('public.generation_id_seq'::regclass);
ALTER TABLE ONLY public.job ALTER COLUMN id SET DEFAULT nextval('public.job_id_seq'::regclass);
ALTER TABLE ONLY public.published_rendition ALTER COLUMN id SET DEFAULT nextval('public.published_rendition_id_seq'::regclass);
ALTER TABLE ONLY public.supervisor ALTER COLUMN id SET DEFAULT nextval('public.supervisor_id_seq'::regclass);
ALTER TABLE ONLY public.token ALTER COLUMN id SET DEFAULT nextval('public.token_id_seq'::regclass);
ALTER TABLE ONLY public.undo ALTER COLUMN id SET DEFAULT nextval('public.undo_id_seq'::regclass);
ALTER TABLE ONLY public.video ALTER COLUMN id SET DEFAULT nextval('public.video_id_seq'::regclass);
ALTER TABLE ONLY public.worker ALTER COLUMN id SET DEFAULT nextval('public.worker_id_seq'::regclass);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkey PRIMARY KEY (version_num);
ALTER TABLE ONLY public.alert
    ADD CONSTRAINT pk_alert PRIMARY KEY (id);
ALTER TABLE ONLY public.alert_position
    ADD CONSTRAINT pk_alert_position PRIMARY KEY (seq);
ALTER TABLE ONLY public.attempt
    ADD CONSTRAINT pk_attempt PRIMARY KEY (id);
ALTER TABLE ONLY public.deletion
    ADD CONSTRAINT pk_deletion PRIMARY KEY (video_id);
ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT pk_delivery PRIMARY KEY (id);
ALTER TABLE ONLY public.event
    ADD CONSTRAINT pk_event PRIMARY KEY (seq);
ALTER TABLE ONLY public.folder
    ADD CONSTRAINT pk_folder PRIMARY KEY (id);
ALTER TABLE ONLY public.gate
    ADD CONSTRAINT pk_gate PRIMARY KEY (kind);
ALTER TABLE ONLY public.generation
    ADD CONSTRAINT pk_generation PRIMARY KEY (id);
ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT pk_idempotency PRIMARY KEY (key);
ALTER TABLE ONLY public.job
    ADD CONSTRAINT pk_job PRIMARY KEY (id);
ALTER TABLE ONLY public.job_count
    ADD CONSTRAINT pk_job_count PRIMARY KEY (status);
ALTER TABLE ONLY public.publication
    ADD CONSTRAINT pk_publication PRIMARY KEY (job_id);
ALTER TABLE ONLY public.published_rendition
    ADD CONSTRAINT pk_published_rendition PRIMARY KEY (id);
ALTER TABLE ONLY public.rendition
    ADD CONSTRAINT pk_rendition PRIMARY KEY (job_id, name);
ALTER TABLE ONLY public.source_removal
    ADD CONSTRAINT pk_source_removal PRIMARY KEY (job_id);
ALTER TABLE ONLY public.speed
    ADD CONSTRAINT pk_speed PRIMARY KEY (key);
ALTER TABLE ONLY public.standby
    ADD CONSTRAINT pk_standby PRIMARY KEY (home);
ALTER TABLE ONLY public.statistic
    ADD CONSTRAINT pk_statistic PRIMARY KEY (at, job_id, epoch);
ALTER TABLE ONLY public.supervisor
    ADD CONSTRAINT pk_supervisor PRIMARY KEY (id);
ALTER TABLE ONLY public.token
    ADD CONSTRAINT pk_token PRIMARY KEY (id);
ALTER TABLE ONLY public.undo
    ADD CONSTRAINT pk_undo PRIMARY KEY (id);
ALTER TABLE ONLY public.undo_step
    ADD CONSTRAINT pk_undo_step PRIMARY KEY (undo_id, subject);
ALTER TABLE ONLY public.upload
    ADD CONSTRAINT pk_upload PRIMARY KEY (id);
ALTER TABLE ONLY public.video
    ADD CONSTRAINT pk_video PRIMARY KEY (id);
ALTER TABLE ONLY public.worker
    ADD CONSTRAINT pk_worker PRIMARY KEY (id);
ALTER TABLE ONLY public.alert
    ADD CONSTRAINT uq_alert_channel_key UNIQUE (channel, key);
ALTER TABLE ONLY public.attempt
    ADD CONSTRAINT uq_attempt_job_id_epoch UNIQUE (job_id, epoch);
ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT uq_delivery_video_id_number UNIQUE (video_id, number);
ALTER TABLE ONLY public.folder
    ADD CONSTRAINT uq_folder_path UNIQUE (path);
ALTER TABLE ONLY public.generation
    ADD CONSTRAINT uq_generation_video_id_number UNIQUE (video_id, number);
ALTER TABLE ONLY public.published_rendition
    ADD CONSTRAINT uq_published_rendition_generation_id_name UNIQUE (generation_id, name);
ALTER TABLE ONLY public.token
    ADD CONSTRAINT uq_token_name UNIQUE (name);
ALTER TABLE ONLY public.token
    ADD CONSTRAINT uq_token_prefix UNIQUE (prefix);
ALTER TABLE ONLY public.video
    ADD CONSTRAINT uq_video_output_root_slug UNIQUE (output_root, slug);
ALTER TABLE ONLY public.video
    ADD CONSTRAINT uq_video_source_output_root UNIQUE (source, output_root);
ALTER TABLE ONLY public.worker
    ADD CONSTRAINT uq_worker_name UNIQUE (name);
CREATE INDEX ix_alert_subject ON public.alert USING btree (channel, kind, subject, id);
CREATE INDEX ix_alert_waiting ON public.alert USING btree (channel, next_at) WHERE (next_at IS NOT NULL);
CREATE INDEX ix_delivery_next ON public.delivery USING btree (next_at, id) WHERE (next_at IS NOT NULL);
CREATE INDEX ix_delivery_url ON public.delivery USING btree (url, id);
CREATE INDEX ix_event_at ON public.event USING btree (at);
CREATE INDEX ix_event_job ON public.event USING btree (job_id, seq);
CREATE INDEX ix_job_autorestart ON public.job USING btree (id) WHERE ((status = 'failed'::text) AND (autorestart = ANY (ARRAY['enabled'::text, 'in_progress'::text])) AND (deleted_at IS NULL));
CREATE INDEX ix_job_backoff ON public.job USING btree (not_before) WHERE ((status = 'pending'::text) AND (not_before IS NOT NULL));
CREATE INDEX ix_job_batch ON public.job USING btree (batch, id) WHERE (batch IS NOT NULL);
CREATE INDEX ix_job_deleted_ended ON public.job USING btree (status, completed_at DESC, id DESC, video_id) WHERE (deleted_at IS NOT NULL);
CREATE INDEX ix_job_deleted_status ON public.job USING btree (status, id, video_id) WHERE (deleted_at IS NOT NULL);
CREATE INDEX ix_job_deleted_waiting ON public.job USING btree (status, priority DESC, created_at, id, video_id) WHERE (deleted_at IS NOT NULL);
CREATE INDEX ix_job_ended ON public.job USING btree (status, completed_at DESC, id DESC, video_id) WHERE (deleted_at IS NULL);
CREATE INDEX ix_job_instance ON public.job USING btree (instance) WHERE (status = 'in_progress'::text);
CREATE UNIQUE INDEX ix_job_one_open ON public.job USING btree (video_id) WHERE ((status = ANY (ARRAY['pending'::text, 'in_progress'::text, 'paused'::text])) AND (deleted_at IS NULL));
CREATE INDEX ix_job_origin ON public.job USING btree (id, kind, owner, profile, error_code, created_at);
CREATE INDEX ix_job_predicted ON public.job USING btree (completed_at DESC, id DESC) WHERE ((predicted_s IS NOT NULL) AND (status = 'done'::text) AND (deleted_at IS NULL));
CREATE INDEX ix_job_ready ON public.job USING btree (prefer_gpu, priority DESC, created_at, id) WHERE ((status = 'pending'::text) AND (not_before IS NULL) AND (deleted_at IS NULL));
CREATE INDEX ix_job_status ON public.job USING btree (status, id, video_id) WHERE (deleted_at IS NULL);
CREATE INDEX ix_job_unprobed ON public.job USING btree (priority DESC, created_at, id) WHERE ((unprobed = 1) AND (status = ANY (ARRAY['pending'::text, 'paused'::text])) AND (deleted_at IS NULL));
CREATE INDEX ix_job_video ON public.job USING btree (video_id, id);
CREATE INDEX ix_job_waiting ON public.job USING btree (status, priority DESC, created_at, id, video_id) WHERE (deleted_at IS NULL);
CREATE INDEX ix_job_warned ON public.job USING btree (id) WHERE (warnings <> '[]'::text);
CREATE INDEX ix_undo_actor ON public.undo USING btree (actor, id);
CREATE INDEX ix_undo_step_version ON public.undo_step USING btree (subject, version);
CREATE INDEX ix_video_by_length ON public.video USING btree (length_ms, id);
CREATE INDEX ix_video_by_name ON public.video USING btree (name_lower, id);
CREATE INDEX ix_video_by_size ON public.video USING btree (size, id);
CREATE INDEX ix_video_inode ON public.video USING btree (inode) WHERE (inode IS NOT NULL);
CREATE INDEX ix_video_search ON public.video USING btree (id, folder_id, name_lower, size, length_ms);
CREATE INDEX ix_video_size ON public.video USING btree (size) WHERE (generation_id IS NOT NULL);
CREATE TRIGGER job_count_insert_delete AFTER INSERT OR DELETE ON public.job FOR EACH ROW EXECUTE FUNCTION public.count_jobs();
CREATE TRIGGER job_count_update AFTER UPDATE OF status, deleted_at ON public.job FOR EACH ROW WHEN (((old.status <> new.status) OR ((old.deleted_at IS NULL) <> (new.deleted_at IS NULL)))) EXECUTE FUNCTION public.count_jobs();
ALTER TABLE ONLY public.attempt
    ADD CONSTRAINT fk_attempt_job_id_job FOREIGN KEY (job_id) REFERENCES public.job(id);
ALTER TABLE ONLY public.attempt
    ADD CONSTRAINT fk_attempt_worker_id_worker FOREIGN KEY (worker_id) REFERENCES public.worker(id);
ALTER TABLE ONLY public.deletion
    ADD CONSTRAINT fk_deletion_video_id_video FOREIGN KEY (video_id) REFERENCES public.video(id);
ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT fk_delivery_video_id_video FOREIGN KEY (video_id) REFERENCES public.video(id);
ALTER TABLE ONLY public.generation
    ADD CONSTRAINT fk_generation_video_id_video FOREIGN KEY (video_id) REFERENCES public.video(id);
ALTER TABLE ONLY public.job
    ADD CONSTRAINT fk_job_supervisor_id_supervisor FOREIGN KEY (supervisor_id) REFERENCES public.supervisor(id);
ALTER TABLE ONLY public.job
    ADD CONSTRAINT fk_job_video_id_video FOREIGN KEY (video_id) REFERENCES public.video(id);
ALTER TABLE ONLY public.job
    ADD CONSTRAINT fk_job_worker_id_worker FOREIGN KEY (worker_id) REFERENCES public.worker(id);
ALTER TABLE ONLY public.publication
    ADD CONSTRAINT fk_publication_job_id_job FOREIGN KEY (job_id) REFERENCES public.job(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.publication
    ADD CONSTRAINT fk_publication_video_id_video FOREIGN KEY (video_id) REFERENCES public.video(id);
ALTER TABLE ONLY public.published_rendition
    ADD CONSTRAINT fk_published_rendition_generation_id_generation FOREIGN KEY (generation_id) REFERENCES public.generation(id);
ALTER TABLE ONLY public.rendition
    ADD CONSTRAINT fk_rendition_job_id_job FOREIGN KEY (job_id) REFERENCES public.job(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.source_removal
    ADD CONSTRAINT fk_source_removal_job_id_job FOREIGN KEY (job_id) REFERENCES public.job(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.source_removal
    ADD CONSTRAINT fk_source_removal_video_id_video FOREIGN KEY (video_id) REFERENCES public.video(id);
ALTER TABLE ONLY public.token
    ADD CONSTRAINT fk_token_worker_id_worker FOREIGN KEY (worker_id) REFERENCES public.worker(id);
ALTER TABLE ONLY public.undo_step
    ADD CONSTRAINT fk_undo_step_undo_id_undo FOREIGN KEY (undo_id) REFERENCES public.undo(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.video
    ADD CONSTRAINT fk_video_folder_id_folder FOREIGN KEY (folder_id) REFERENCES public.folder(id);
