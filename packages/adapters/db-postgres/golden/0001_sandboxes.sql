--
-- PostgreSQL database dump
--

\restrict shlborW9aU2DvflA6vAppWGzVQj061oB5Bs3E7pOaw76LEr1wMcDlYOX0w8MG3X

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Data for Name: api_keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.api_keys (id, prefix, sha256, created_at) VALUES ('key_q2139cnazsj2nh7d', 'space_ab', '\x0707070707070707070707070707070707070707070707070707070707070707', '2026-11-30 03:30:33.138+00');


--
-- Data for Name: sandboxes; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at) VALUES ('sbx_9zfff9szb1qpqvrv', NULL, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', '{"GREETING": "grüße"}', '{"team": "blue"}', 'running', NULL, NULL, 1, 1, 'snp_baqqkv1pn2kh2ttn', 'sbx_6xgn2dmnd1fb9jpc', 'snp_baqqkv1pn2kh2ttn', 'snp_baqqkv1pn2kh2ttn', NULL, NULL, '2026-11-30 03:30:35.268+00', '2026-11-30 03:30:35.375+00');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at) VALUES ('sbx_6xgn2dmnd1fb9jpc', 'one', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', '{"GREETING": "grüße"}', '{"team": "blue"}', 'paused', NULL, NULL, 6, 2, 'snp_w2rrdaxcd16qnxx1', NULL, NULL, NULL, NULL, NULL, '2026-11-30 03:30:33.165+00', '2026-11-30 03:30:35.566+00');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at) VALUES ('sbx_5ym1jqgc9g5etse9', 'crashed', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', '{}', '{}', 'crashed', NULL, NULL, 2, 1, 'snp_ty9makrxcad2kw38', NULL, NULL, NULL, 'the VM process was killed', '2026-11-30 03:30:36.162+00', '2026-11-30 03:30:35.74+00', '2026-11-30 03:30:36.172+00');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at) VALUES ('sbx_8bvhfr88e6b8f4z0', 'gone', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', '{}', '{}', 'deleted', NULL, NULL, 3, 1, 'snp_av9rd3svdem1px4v', NULL, NULL, NULL, NULL, NULL, '2026-11-30 03:30:36.498+00', '2026-11-30 03:30:36.818+00');


--
-- Data for Name: operations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_g2wzbgcc8n1bygg4', 'sbx_6xgn2dmnd1fb9jpc', 'create', 1, '{}', '2026-11-30 03:30:33.165+00', '2026-11-30 03:30:33.297+00', 'ok', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_00yvq79ehxyn5jpj', 'sbx_6xgn2dmnd1fb9jpc', 'snapshot', 2, '{"takes": "snp_nn73708w368wr855"}', '2026-11-30 03:30:33.518+00', '2026-11-30 03:30:33.587+00', 'ok', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_srmppv6241sn2gt2', 'sbx_6xgn2dmnd1fb9jpc', 'snapshot', 3, '{"takes": "snp_aavp2yhdwcpgdsyz"}', '2026-11-30 03:30:34.053+00', '2026-11-30 03:30:34.077+00', 'ok', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_pafd7nyzntanpxyq', 'sbx_6xgn2dmnd1fb9jpc', 'rewind', 4, '{"from": "snp_nn73708w368wr855", "takes": "snp_12f62cw3pdqz1721", "generation": 2}', '2026-11-30 03:30:34.3+00', '2026-11-30 03:30:34.354+00', 'ok', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_0wh5j9wgcy4bwvyc', 'sbx_6xgn2dmnd1fb9jpc', 'fork', 5, '{"takes": "snp_baqqkv1pn2kh2ttn"}', '2026-11-30 03:30:34.682+00', '2026-11-30 03:30:34.851+00', 'ok', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_0ysre86gxcw1bxpp', 'sbx_9zfff9szb1qpqvrv', 'create', 1, '{"from": "snp_baqqkv1pn2kh2ttn"}', '2026-11-30 03:30:35.268+00', '2026-11-30 03:30:35.375+00', 'ok', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_eepy2w5zc4k0w92j', 'sbx_6xgn2dmnd1fb9jpc', 'pause', 6, '{"takes": "snp_w2rrdaxcd16qnxx1"}', '2026-11-30 03:30:35.486+00', '2026-11-30 03:30:35.566+00', 'ok', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_bwkaddc5tvdn0k13', 'sbx_5ym1jqgc9g5etse9', 'create', 1, '{}', '2026-11-30 03:30:35.74+00', '2026-11-30 03:30:35.781+00', 'ok', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_xhrdcb2dhvzy2t68', 'sbx_5ym1jqgc9g5etse9', 'snapshot', 2, '{"takes": "snp_ty9makrxcad2kw38"}', '2026-11-30 03:30:35.972+00', '2026-11-30 03:30:36.122+00', 'ok', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_zdc8e48fn8h7xzfd', 'sbx_8bvhfr88e6b8f4z0', 'create', 1, '{}', '2026-11-30 03:30:36.498+00', '2026-11-30 03:30:36.55+00', 'ok', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_k1pg98rxp1jhz6pr', 'sbx_8bvhfr88e6b8f4z0', 'snapshot', 2, '{"takes": "snp_av9rd3svdem1px4v"}', '2026-11-30 03:30:36.58+00', '2026-11-30 03:30:36.586+00', 'ok', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code) VALUES ('opn_hyjz4r5a6zbj1e4j', 'sbx_8bvhfr88e6b8f4z0', 'delete', 3, '{}', '2026-11-30 03:30:36.771+00', '2026-11-30 03:30:36.818+00', 'ok', NULL);


--
-- Data for Name: snapshots; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings) VALUES ('snp_nn73708w368wr855', 'sbx_6xgn2dmnd1fb9jpc', 'before', 'a note', 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:30:33.571+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings) VALUES ('snp_aavp2yhdwcpgdsyz', 'sbx_6xgn2dmnd1fb9jpc', NULL, NULL, 'snapshot', 'snp_nn73708w368wr855', 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:30:34.073+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings) VALUES ('snp_12f62cw3pdqz1721', 'sbx_6xgn2dmnd1fb9jpc', NULL, NULL, 'rewind', 'snp_aavp2yhdwcpgdsyz', 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:30:34.352+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings) VALUES ('snp_baqqkv1pn2kh2ttn', 'sbx_6xgn2dmnd1fb9jpc', NULL, NULL, 'fork', 'snp_nn73708w368wr855', 2, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:30:34.808+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings) VALUES ('snp_w2rrdaxcd16qnxx1', 'sbx_6xgn2dmnd1fb9jpc', NULL, NULL, 'pause', 'snp_baqqkv1pn2kh2ttn', 2, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:30:35.551+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings) VALUES ('snp_ty9makrxcad2kw38', 'sbx_5ym1jqgc9g5etse9', NULL, NULL, 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', 'good', NULL, '2026-11-30 03:30:36.12+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings) VALUES ('snp_av9rd3svdem1px4v', 'sbx_8bvhfr88e6b8f4z0', 'outlives', NULL, 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', 'good', NULL, '2026-11-30 03:30:36.585+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}');


--
-- PostgreSQL database dump complete
--

\unrestrict shlborW9aU2DvflA6vAppWGzVQj061oB5Bs3E7pOaw76LEr1wMcDlYOX0w8MG3X

