/** How the routes of templates that are built here are answered. */
import type { Answers } from './answers.ts';
import { readBody } from './body.ts';

type TemplateRoute =
  | 'requestTemplateBuild'
  | 'startTemplateBuild'
  | 'getTemplateBuild'
  | 'getTemplate'
  | 'deleteTemplate'
  | 'tagTemplate'
  | 'untagTemplate'
  | 'getTemplateFile'
  | 'putTemplateFile';

export const TEMPLATE_ANSWERS: Pick<Answers, TemplateRoute> = {
  requestTemplateBuild: async ({ useCases, caller, input }) => ({
    body: await useCases.requestTemplateBuild(caller, input),
  }),
  startTemplateBuild: async ({ useCases, caller, input }) => ({
    body: await useCases.startTemplateBuild(caller, input),
  }),
  getTemplateBuild: async ({ useCases, caller, input }) => ({ body: await useCases.getTemplateBuild(caller, input) }),
  getTemplate: async ({ useCases, caller, input }) => ({ body: await useCases.getTemplate(caller, input) }),
  deleteTemplate: async ({ useCases, caller, input }) => {
    await useCases.deleteTemplate(caller, input);
    return {};
  },
  tagTemplate: async ({ useCases, caller, input }) => ({ body: await useCases.tagTemplate(caller, input) }),
  untagTemplate: async ({ useCases, caller, input }) => {
    await useCases.untagTemplate(caller, input);
    return {};
  },
  getTemplateFile: async ({ useCases, caller, input }) => ({ body: await useCases.getTemplateFile(caller, input) }),
  putTemplateFile: async ({ useCases, caller, input, request, server }) => {
    const body = readBody(request, { idleMs: server.uploadIdleMs });
    return { body: await useCases.putTemplateFile(caller, input, body) };
  },
};
