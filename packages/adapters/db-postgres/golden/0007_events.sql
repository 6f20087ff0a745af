--
-- PostgreSQL database dump
--

\restrict xtA9bWsOVfcTMCgxChqhQLT81HawWpxAQCAjID4Cer1Bj51o7TWSCNhatumfMUl

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
-- Data for Name: organisations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.organisations (id, name, operator, created_at, max_sandboxes, max_running, max_snapshots, max_memory_mib) VALUES ('org_0000000000000000', 'default', true, '2026-11-30 03:31:08.361+00', NULL, NULL, NULL, NULL);
INSERT INTO public.organisations (id, name, operator, created_at, max_sandboxes, max_running, max_snapshots, max_memory_mib) VALUES ('org_qpq3pj55vy8mfp13', 'acme', false, '2026-11-30 03:31:14.709+00', 10, NULL, NULL, 4096);


--
-- Data for Name: projects; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.projects (id, organisation_id, name, created_at, ordinal) OVERRIDING SYSTEM VALUE VALUES ('prj_0000000000000000', 'org_0000000000000000', 'default', '2026-11-30 03:31:08.361+00', 1);
INSERT INTO public.projects (id, organisation_id, name, created_at, ordinal) OVERRIDING SYSTEM VALUE VALUES ('prj_twmpsxdwr8yr67mm', 'org_0000000000000000', 'second', '2026-11-30 03:31:14.305+00', 2);
INSERT INTO public.projects (id, organisation_id, name, created_at, ordinal) OVERRIDING SYSTEM VALUE VALUES ('prj_1gqvemtkyah1dn5q', 'org_qpq3pj55vy8mfp13', 'default', '2026-11-30 03:31:14.709+00', 3);


--
-- Data for Name: api_keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.api_keys (id, prefix, sha256, created_at, organisation_id, project_id, name, roles, revoked_at) VALUES ('key_haecc3hhaw9snn0k', 'space_WOl0', '\x0765943b013812c8095fc20e3bd9e7c61db11c296ad76049ac60c5d45f000a6c', '2026-11-30 03:31:14.376+00', 'org_0000000000000000', 'prj_twmpsxdwr8yr67mm', 'ci', '{developer,viewer}', NULL);
INSERT INTO public.api_keys (id, prefix, sha256, created_at, organisation_id, project_id, name, roles, revoked_at) VALUES ('key_273tp5pwp9mmdjsm', 'space_HFX-', '\xfee3f5f6181e395f32ce150d86ec49aa6c8ea4de6995a93452d3c27f97f5991b', '2026-11-30 03:31:14.577+00', 'org_0000000000000000', NULL, NULL, '{auditor}', '2026-11-30 03:31:14.634+00');
INSERT INTO public.api_keys (id, prefix, sha256, created_at, organisation_id, project_id, name, roles, revoked_at) VALUES ('key_6b77mkqq6j5rck3e', 'space_wSgR', '\xf63b304e9c8b8ec86a1368adcc0081f13d1ddbc0c1d5803ebc1b6905ec359ee0', '2026-11-30 03:31:14.71+00', 'org_qpq3pj55vy8mfp13', NULL, NULL, '{admin}', NULL);


--
-- Data for Name: audit; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_xt8bpwaymn1c2zyd', 'req_1', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', 'sbx_bjcqwknk00d1hsrg', 'opn_bpsca7vzztj8ne31', NULL, '2026-11-30 03:31:09.623+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_xx798p5pa5q7a4jt', 'req_2', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.use', 'exec', 'sbx_bjcqwknk00d1hsrg', NULL, 'ok', '2026-11-30 03:31:09.829+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_5r7t8vvh4rsm35px', 'req_3', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_bjcqwknk00d1hsrg', 'opn_zbhvk6ttrgm8e8dt', NULL, '2026-11-30 03:31:09.836+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_9a5v826r5yn78ymz', 'req_4', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.use', 'exec', 'sbx_bjcqwknk00d1hsrg', NULL, 'ok', '2026-11-30 03:31:09.884+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_xhqx4tvftmjfa28m', 'req_5', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_bjcqwknk00d1hsrg', 'opn_0tt9pdnh87d7fy3e', NULL, '2026-11-30 03:31:10.048+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_6x9dwxk5hk9nfmz0', 'req_6', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.use', 'exec', 'sbx_bjcqwknk00d1hsrg', NULL, 'ok', '2026-11-30 03:31:10.57+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_8nywyf4vyrvpr1ap', 'req_7', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.change', 'rewindSandbox', 'sbx_bjcqwknk00d1hsrg', 'opn_p4wp5xdbzrd8fa88', NULL, '2026-11-30 03:31:10.786+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_negx7sb6ns1we9hr', 'req_8', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'forkSandbox', 'sbx_bjcqwknk00d1hsrg', 'opn_fnn1shj1g9bp1mky', NULL, '2026-11-30 03:31:11.608+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_jz5kyw3dn2x0msdr', 'req_9', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.change', 'pauseSandbox', 'sbx_bjcqwknk00d1hsrg', 'opn_cv4yxxzprqpds98g', NULL, '2026-11-30 03:31:12.186+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_m4ms32per15vhvng', 'req_10', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', 'sbx_w91q732s0kce9czj', 'opn_fmsp55gta88e0a2k', NULL, '2026-11-30 03:31:12.691+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_3za794c6jg84bjnr', 'req_11', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_w91q732s0kce9czj', 'opn_rt7t213btw334jyx', NULL, '2026-11-30 03:31:12.969+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_anyh8cehkr90ac6t', 'req_12', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', 'sbx_69xzyg09yxcbx7dp', 'opn_az4k6m4xcp9vxax5', NULL, '2026-11-30 03:31:13.532+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_qv9xnbamdz4ckqe4', 'req_13', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_69xzyg09yxcbx7dp', 'opn_g0vpzht4wz4kz8h9', NULL, '2026-11-30 03:31:13.804+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_nm28t3j2ywrq0xaf', 'req_14', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.delete', 'deleteSandbox', 'sbx_69xzyg09yxcbx7dp', 'opn_s15g9zfhk5w4xccy', NULL, '2026-11-30 03:31:14.113+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_e6x2pj4dn3ye9s9v', 'req_15', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', NULL, NULL, 'template_unknown', '2026-11-30 03:31:14.297+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_xcpq6j2ar9rshtmv', 'req_16', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', NULL, 'project.manage', 'createProject', 'prj_twmpsxdwr8yr67mm', NULL, 'ok', '2026-11-30 03:31:14.335+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_fsxf60rjq8a54ftm', 'req_17', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', NULL, 'key.manage', 'createKey', 'key_haecc3hhaw9snn0k', NULL, 'ok', '2026-11-30 03:31:14.573+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_rz1b1vc7334vzb24', 'req_18', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', NULL, 'key.manage', 'createKey', 'key_273tp5pwp9mmdjsm', NULL, 'ok', '2026-11-30 03:31:14.608+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_ttayhn3nqdfx8gsz', 'req_19', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', NULL, 'key.manage', 'revokeKey', 'key_273tp5pwp9mmdjsm', NULL, 'ok', '2026-11-30 03:31:14.7+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_44932x06166e1dnr', 'req_20', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', NULL, 'organisation.manage', 'createOrganisation', 'org_qpq3pj55vy8mfp13', NULL, 'ok', '2026-11-30 03:31:14.753+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_2ypd6w9xp65n3388', 'req_21', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', NULL, 'organisation.manage', 'setLimits', 'org_qpq3pj55vy8mfp13', NULL, 'ok', '2026-11-30 03:31:14.804+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_m7wq6vpjd8h6p6ea', 'req_22', 'key_g8f2d7d6m6yb7crm', 'org_0000000000000000', 'prj_twmpsxdwr8yr67mm', 'sandbox.create', 'createSandbox', 'sbx_t4xnvftkagqbcggf', 'opn_qfqcpjstdqxmcn0p', NULL, '2026-11-30 03:31:14.821+00');


--
-- Data for Name: calls; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.calls (api_key_id, idempotency_key, route, digest, request_id, owner, answer, at) VALUES ('key_g8f2d7d6m6yb7crm', 'make-one', 'createSandbox', '2fe32b1350674a8c9181b799f690846199a905c56a5d36dc61e58fc99eab34bc', 'req_1', '2635f8e013a36672be3283457b15ec5b', '{"result":{"id":"sbx_bjcqwknk00d1hsrg","name":"one","status":"running","template":"base","size":{"vcpus":1,"diskMib":8192,"memoryMib":256},"generation":1,"head":null,"forkedFrom":null,"metadata":{"team":"blue"},"createdAt":"2026-11-30T03:31:09.623Z","updatedAt":"2026-11-30T03:31:09.776Z","crash":null}}', '2026-11-30 03:31:09.526+00');


--
-- Data for Name: event_floor; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.event_floor (tx, number) VALUES (0, 0);


--
-- Data for Name: events; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (730, 1, 'sandbox.created', '2026-11-30 03:31:09.776+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (730, 2, 'sandbox.running', '2026-11-30 03:31:09.776+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (730, 3, 'operation.ended', '2026-11-30 03:31:09.776+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', NULL, 'opn_bpsca7vzztj8ne31', NULL, 'create', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (734, 4, 'snapshot.taken', '2026-11-30 03:31:09.85+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', 'snp_y46exdq05rjp6vy6', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (734, 5, 'operation.ended', '2026-11-30 03:31:09.85+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', NULL, 'opn_zbhvk6ttrgm8e8dt', NULL, 'snapshot', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (737, 6, 'snapshot.taken', '2026-11-30 03:31:10.224+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', 'snp_4ss9eh8t4p93tkh1', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (737, 7, 'operation.ended', '2026-11-30 03:31:10.224+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', NULL, 'opn_0tt9pdnh87d7fy3e', NULL, 'snapshot', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (740, 8, 'snapshot.taken', '2026-11-30 03:31:11.419+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', 'snp_220e62h7ht4gy040', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (740, 9, 'operation.ended', '2026-11-30 03:31:11.419+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', NULL, 'opn_p4wp5xdbzrd8fa88', NULL, 'rewind', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (742, 10, 'snapshot.taken', '2026-11-30 03:31:11.624+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', 'snp_tj1d44g9tswq2z1f', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (742, 11, 'operation.ended', '2026-11-30 03:31:11.624+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', NULL, 'opn_fnn1shj1g9bp1mky', NULL, 'fork', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (744, 12, 'sandbox.created', '2026-11-30 03:31:11.736+00', NULL, 'prj_0000000000000000', 'sbx_fkt1aw0qd9skvxqb', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (744, 13, 'sandbox.running', '2026-11-30 03:31:11.736+00', NULL, 'prj_0000000000000000', 'sbx_fkt1aw0qd9skvxqb', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (744, 14, 'operation.ended', '2026-11-30 03:31:11.736+00', NULL, 'prj_0000000000000000', 'sbx_fkt1aw0qd9skvxqb', NULL, 'opn_79ms246cb5xwpmhv', NULL, 'create', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (746, 15, 'snapshot.taken', '2026-11-30 03:31:12.261+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', 'snp_4mra64qrfh4ry7eb', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (746, 16, 'sandbox.paused', '2026-11-30 03:31:12.261+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (746, 17, 'operation.ended', '2026-11-30 03:31:12.261+00', NULL, 'prj_0000000000000000', 'sbx_bjcqwknk00d1hsrg', NULL, 'opn_cv4yxxzprqpds98g', NULL, 'pause', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (748, 18, 'sandbox.created', '2026-11-30 03:31:12.81+00', NULL, 'prj_0000000000000000', 'sbx_w91q732s0kce9czj', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (748, 19, 'sandbox.running', '2026-11-30 03:31:12.81+00', NULL, 'prj_0000000000000000', 'sbx_w91q732s0kce9czj', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (748, 20, 'operation.ended', '2026-11-30 03:31:12.81+00', NULL, 'prj_0000000000000000', 'sbx_w91q732s0kce9czj', NULL, 'opn_fmsp55gta88e0a2k', NULL, 'create', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (750, 21, 'snapshot.taken', '2026-11-30 03:31:13.098+00', NULL, 'prj_0000000000000000', 'sbx_w91q732s0kce9czj', 'snp_jw0sjj95fkrktg7n', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (750, 22, 'operation.ended', '2026-11-30 03:31:13.098+00', NULL, 'prj_0000000000000000', 'sbx_w91q732s0kce9czj', NULL, 'opn_rt7t213btw334jyx', NULL, 'snapshot', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (751, 23, 'sandbox.crashed', '2026-11-30 03:31:13.232+00', NULL, 'prj_0000000000000000', 'sbx_w91q732s0kce9czj', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (753, 24, 'sandbox.created', '2026-11-30 03:31:13.646+00', NULL, 'prj_0000000000000000', 'sbx_69xzyg09yxcbx7dp', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (753, 25, 'sandbox.running', '2026-11-30 03:31:13.646+00', NULL, 'prj_0000000000000000', 'sbx_69xzyg09yxcbx7dp', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (753, 26, 'operation.ended', '2026-11-30 03:31:13.646+00', NULL, 'prj_0000000000000000', 'sbx_69xzyg09yxcbx7dp', NULL, 'opn_az4k6m4xcp9vxax5', NULL, 'create', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (755, 27, 'snapshot.taken', '2026-11-30 03:31:13.968+00', NULL, 'prj_0000000000000000', 'sbx_69xzyg09yxcbx7dp', 'snp_jdet8yt4wss8avh9', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (755, 28, 'operation.ended', '2026-11-30 03:31:13.968+00', NULL, 'prj_0000000000000000', 'sbx_69xzyg09yxcbx7dp', NULL, 'opn_g0vpzht4wz4kz8h9', NULL, 'snapshot', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (757, 29, 'sandbox.deleted', '2026-11-30 03:31:14.227+00', NULL, 'prj_0000000000000000', 'sbx_69xzyg09yxcbx7dp', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (757, 30, 'operation.ended', '2026-11-30 03:31:14.227+00', NULL, 'prj_0000000000000000', 'sbx_69xzyg09yxcbx7dp', NULL, 'opn_s15g9zfhk5w4xccy', NULL, 'delete', 'ok', NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (765, 31, 'key.revoked', '2026-11-30 03:31:14.634+00', 'org_0000000000000000', NULL, NULL, NULL, NULL, 'key_273tp5pwp9mmdjsm', NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (772, 32, 'sandbox.created', '2026-11-30 03:31:14.893+00', NULL, 'prj_twmpsxdwr8yr67mm', 'sbx_t4xnvftkagqbcggf', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (772, 33, 'sandbox.running', '2026-11-30 03:31:14.893+00', NULL, 'prj_twmpsxdwr8yr67mm', 'sbx_t4xnvftkagqbcggf', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code) OVERRIDING SYSTEM VALUE VALUES (772, 34, 'operation.ended', '2026-11-30 03:31:14.893+00', NULL, 'prj_twmpsxdwr8yr67mm', 'sbx_t4xnvftkagqbcggf', NULL, 'opn_qfqcpjstdqxmcn0p', NULL, 'create', 'ok', NULL);


--
-- Data for Name: sandboxes; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id) VALUES ('sbx_t4xnvftkagqbcggf', 'elsewhere', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', '{}', '{}', 'running', NULL, NULL, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-30 03:31:14.821+00', '2026-11-30 03:31:14.893+00', 'prj_twmpsxdwr8yr67mm');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id) VALUES ('sbx_fkt1aw0qd9skvxqb', NULL, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', '{"GREETING": "grüße"}', '{"team": "blue"}', 'running', NULL, NULL, 1, 1, 'snp_tj1d44g9tswq2z1f', 'sbx_bjcqwknk00d1hsrg', 'snp_tj1d44g9tswq2z1f', 'snp_tj1d44g9tswq2z1f', NULL, NULL, '2026-11-30 03:31:11.673+00', '2026-11-30 03:31:11.736+00', 'prj_0000000000000000');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id) VALUES ('sbx_bjcqwknk00d1hsrg', 'one', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', '{"GREETING": "grüße"}', '{"team": "blue"}', 'paused', NULL, NULL, 6, 2, 'snp_4mra64qrfh4ry7eb', NULL, NULL, NULL, NULL, NULL, '2026-11-30 03:31:09.623+00', '2026-11-30 03:31:12.261+00', 'prj_0000000000000000');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id) VALUES ('sbx_w91q732s0kce9czj', 'crashed', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', '{}', '{}', 'crashed', NULL, NULL, 2, 1, 'snp_jw0sjj95fkrktg7n', NULL, NULL, NULL, 'the VM process was killed', '2026-11-30 03:31:13.226+00', '2026-11-30 03:31:12.691+00', '2026-11-30 03:31:13.232+00', 'prj_0000000000000000');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id) VALUES ('sbx_69xzyg09yxcbx7dp', 'gone', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', '{}', '{}', 'deleted', NULL, NULL, 3, 1, 'snp_jdet8yt4wss8avh9', NULL, NULL, NULL, NULL, NULL, '2026-11-30 03:31:13.532+00', '2026-11-30 03:31:14.227+00', 'prj_0000000000000000');


--
-- Data for Name: operations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_bpsca7vzztj8ne31', 'sbx_bjcqwknk00d1hsrg', 'create', 1, '{}', '2026-11-30 03:31:09.623+00', '2026-11-30 03:31:09.776+00', 'ok', NULL, 'req_1', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_zbhvk6ttrgm8e8dt', 'sbx_bjcqwknk00d1hsrg', 'snapshot', 2, '{"takes": "snp_y46exdq05rjp6vy6"}', '2026-11-30 03:31:09.836+00', '2026-11-30 03:31:09.85+00', 'ok', NULL, 'req_3', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_0tt9pdnh87d7fy3e', 'sbx_bjcqwknk00d1hsrg', 'snapshot', 3, '{"takes": "snp_4ss9eh8t4p93tkh1"}', '2026-11-30 03:31:10.048+00', '2026-11-30 03:31:10.224+00', 'ok', NULL, 'req_5', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_p4wp5xdbzrd8fa88', 'sbx_bjcqwknk00d1hsrg', 'rewind', 4, '{"from": "snp_y46exdq05rjp6vy6", "takes": "snp_220e62h7ht4gy040", "generation": 2}', '2026-11-30 03:31:10.786+00', '2026-11-30 03:31:11.419+00', 'ok', NULL, 'req_7', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_fnn1shj1g9bp1mky', 'sbx_bjcqwknk00d1hsrg', 'fork', 5, '{"takes": "snp_tj1d44g9tswq2z1f"}', '2026-11-30 03:31:11.608+00', '2026-11-30 03:31:11.624+00', 'ok', NULL, 'req_8', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_79ms246cb5xwpmhv', 'sbx_fkt1aw0qd9skvxqb', 'create', 1, '{"from": "snp_tj1d44g9tswq2z1f"}', '2026-11-30 03:31:11.673+00', '2026-11-30 03:31:11.736+00', 'ok', NULL, 'req_8', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_cv4yxxzprqpds98g', 'sbx_bjcqwknk00d1hsrg', 'pause', 6, '{"takes": "snp_4mra64qrfh4ry7eb"}', '2026-11-30 03:31:12.186+00', '2026-11-30 03:31:12.261+00', 'ok', NULL, 'req_9', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_fmsp55gta88e0a2k', 'sbx_w91q732s0kce9czj', 'create', 1, '{}', '2026-11-30 03:31:12.691+00', '2026-11-30 03:31:12.81+00', 'ok', NULL, 'req_10', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_rt7t213btw334jyx', 'sbx_w91q732s0kce9czj', 'snapshot', 2, '{"takes": "snp_jw0sjj95fkrktg7n"}', '2026-11-30 03:31:12.969+00', '2026-11-30 03:31:13.098+00', 'ok', NULL, 'req_11', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_az4k6m4xcp9vxax5', 'sbx_69xzyg09yxcbx7dp', 'create', 1, '{}', '2026-11-30 03:31:13.532+00', '2026-11-30 03:31:13.646+00', 'ok', NULL, 'req_12', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_g0vpzht4wz4kz8h9', 'sbx_69xzyg09yxcbx7dp', 'snapshot', 2, '{"takes": "snp_jdet8yt4wss8avh9"}', '2026-11-30 03:31:13.804+00', '2026-11-30 03:31:13.968+00', 'ok', NULL, 'req_13', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_s15g9zfhk5w4xccy', 'sbx_69xzyg09yxcbx7dp', 'delete', 3, '{}', '2026-11-30 03:31:14.113+00', '2026-11-30 03:31:14.227+00', 'ok', NULL, 'req_14', 'key_g8f2d7d6m6yb7crm', 'prj_0000000000000000');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id) VALUES ('opn_qfqcpjstdqxmcn0p', 'sbx_t4xnvftkagqbcggf', 'create', 1, '{}', '2026-11-30 03:31:14.821+00', '2026-11-30 03:31:14.893+00', 'ok', NULL, 'req_22', 'key_g8f2d7d6m6yb7crm', 'prj_twmpsxdwr8yr67mm');


--
-- Data for Name: snapshots; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id) VALUES ('snp_y46exdq05rjp6vy6', 'sbx_bjcqwknk00d1hsrg', 'before', 'a note', 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:31:09.849+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}', 'prj_0000000000000000');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id) VALUES ('snp_4ss9eh8t4p93tkh1', 'sbx_bjcqwknk00d1hsrg', NULL, NULL, 'snapshot', 'snp_y46exdq05rjp6vy6', 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:31:10.2+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}', 'prj_0000000000000000');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id) VALUES ('snp_220e62h7ht4gy040', 'sbx_bjcqwknk00d1hsrg', NULL, NULL, 'rewind', 'snp_4ss9eh8t4p93tkh1', 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:31:11.386+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}', 'prj_0000000000000000');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id) VALUES ('snp_tj1d44g9tswq2z1f', 'sbx_bjcqwknk00d1hsrg', NULL, NULL, 'fork', 'snp_y46exdq05rjp6vy6', 2, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:31:11.616+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}', 'prj_0000000000000000');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id) VALUES ('snp_4mra64qrfh4ry7eb', 'sbx_bjcqwknk00d1hsrg', NULL, NULL, 'pause', 'snp_tj1d44g9tswq2z1f', 2, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:31:12.249+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}', 'prj_0000000000000000');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id) VALUES ('snp_jw0sjj95fkrktg7n', 'sbx_w91q732s0kce9czj', NULL, NULL, 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', 'good', NULL, '2026-11-30 03:31:13.09+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}', 'prj_0000000000000000');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id) VALUES ('snp_jdet8yt4wss8avh9', 'sbx_69xzyg09yxcbx7dp', 'outlives', NULL, 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', 'good', NULL, '2026-11-30 03:31:13.963+00', '{"totalMs": 3, "frozenMs": 2, "stoppedMs": 1}', 'prj_0000000000000000');


--
-- Name: events_number_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.events_number_seq', 34, true);


--
-- Name: projects_ordinal_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.projects_ordinal_seq', 3, true);


--
-- PostgreSQL database dump complete
--

\unrestrict xtA9bWsOVfcTMCgxChqhQLT81HawWpxAQCAjID4Cer1Bj51o7TWSCNhatumfMUl

